// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/usrbio_store/fake_client.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace kvsidecar::testing {

class FakeMemory final : public usrbio::Memory {
 public:
  FakeMemory(FakeMount& mount, std::span<std::byte> bytes) : Memory(bytes), mount_(mount) {
    ++mount_.memories;
  }
  ~FakeMemory() override { --mount_.memories; }

 private:
  FakeMount& mount_;
};

class FakeFile final : public usrbio::File {
 public:
  FakeFile(FakeMount& mount, int fd) : File(fd), mount_(mount) {
    ++mount_.files;
    // What was closed without being deregistered has poisoned its number.
    KV_CHECK(mount_.registered_fds.insert(fd).second);
  }
  ~FakeFile() override {
    --mount_.files;
    mount_.registered_fds.erase(fd());
  }

 private:
  FakeMount& mount_;
};

class FakeRing final : public usrbio::Ring {
 public:
  FakeRing(FakeMount& mount, const usrbio::RingOptions& options)
      : mount_(mount), options_(options) {
    ++mount_.rings;
  }
  ~FakeRing() override { --mount_.rings; }

  int prepare(const usrbio::Memory& memory, std::byte* address, uint64_t bytes,
              const usrbio::File& file, uint64_t offset, uint64_t user) override {
    const auto whole = memory.bytes();
    KV_CHECK(bytes > 0 && address >= whole.data() &&
             address + bytes <= whole.data() + whole.size());
    if (mount_.prepare_error)
      if (const int error = mount_.prepare_error()) return error;
    const FakeIo io{this, user, options_.for_read, address, bytes, offset, file.fd()};
    const auto mine = [this](const FakeIo& other) { return other.ring == this; };
    if (static_cast<size_t>(std::count_if(mount_.pending.begin(), mount_.pending.end(), mine)) >=
        options_.entries)
      return -EAGAIN;
    ++mount_.prepared;
    mount_.pending.push_back(io);
    if (mount_.mode == FakeMount::Mode::kAtPrepare) mount_.finish(mount_.pending.size() - 1);
    return 0;
  }
  void submit() override { ++mount_.submits; }

  size_t poll(std::span<usrbio::Completion> into) override {
    if (mount_.mode == FakeMount::Mode::kAtPoll && mount_.alive)
      for (size_t i = mount_.pending.size(); i-- > 0;)
        if (mount_.pending[i].ring == this) mount_.finish(i);
    size_t count = 0;
    for (auto at = mount_.done_.begin(); at != mount_.done_.end() && count < into.size();) {
      if (at->ring != this) {
        ++at;
        continue;
      }
      into[count++] = at->completion;
      at = mount_.done_.erase(at);
    }
    return count;
  }
  bool has_completion() const override {
    const auto mine = [this](const auto& one) { return one.ring == this; };
    if (mount_.mode == FakeMount::Mode::kAtPoll && mount_.alive &&
        std::any_of(mount_.pending.begin(), mount_.pending.end(), mine))
      return true;
    return std::any_of(mount_.done_.begin(), mount_.done_.end(), mine);
  }

 private:
  FakeMount& mount_;
  const usrbio::RingOptions options_;
};

// Dies with its mount, also when that is there again.
class FakeClient final : public usrbio::Client {
 public:
  explicit FakeClient(FakeMount& mount) : mount_(mount) { ++mount_.clients; }
  ~FakeClient() override { --mount_.clients; }
  std::string describe() const override { return "fake"; }
  const std::string& mount_point() const override { return mount_.mount_point; }
  Result<std::unique_ptr<usrbio::Memory>> register_memory(const std::string& path,
                                                          std::span<std::byte> mapped) override {
    if (!answers("register_memory") || mount_.refused_memory.count(path) > 0) return refusal();
    if (mount_.useless_memory.count(path) > 0) mount_.useless_.emplace_back(path, mapped);
    return std::unique_ptr<usrbio::Memory>(std::make_unique<FakeMemory>(mount_, mapped));
  }
  Result<std::unique_ptr<usrbio::Ring>> make_ring(const usrbio::RingOptions& options) override {
    if (!answers("make_ring")) return refusal();
    return std::unique_ptr<usrbio::Ring>(std::make_unique<FakeRing>(mount_, options));
  }
  Result<std::unique_ptr<usrbio::File>> register_file(int fd) override {
    if (!answers("register_file")) return refusal();
    return std::unique_ptr<usrbio::File>(std::make_unique<FakeFile>(mount_, fd));
  }
  bool alive() override { return answers("alive"); }

 private:
  bool answers(const char* call) {
    dead_ = dead_ || !mount_.alive;
    return !dead_ && !mount_.fail(call);
  }
  static Status refusal() { return {Code::kUnavailable, "the test refuses it"}; }
  FakeMount& mount_;
  bool dead_ = false;
};

Result<std::unique_ptr<usrbio::Client>> FakeMount::open() {
  if (!alive || fail("open")) return Status(Code::kUnavailable, "the test refuses the client");
  return std::unique_ptr<usrbio::Client>(std::make_unique<FakeClient>(*this));
}

int64_t FakeMount::move(const FakeIo& io) {
  const auto offset = static_cast<off_t>(io.offset);
  const ssize_t moved = io.read ? ::pread(io.fd, io.address, io.bytes, offset)
                                : ::pwrite(io.fd, io.address, io.bytes, offset);
  return moved < 0 ? -errno : moved;
}

bool FakeMount::is_useless(const FakeIo& io) const {
  return std::any_of(useless_.begin(), useless_.end(), [&](const auto& one) {
    return io.address >= one.second.data() && io.address < one.second.data() + one.second.size();
  });
}

void FakeMount::complete(const FakeIo& io, int64_t result) {
  done_.push_back({io.ring, {io.user, result}});
}

void FakeMount::finish(size_t number) {
  const FakeIo& io = pending.at(number);
  finish_with(number, is_useless(io) ? -EACCES : move(io));
}

void FakeMount::finish_with(size_t number, int64_t result) {
  complete(pending.at(number), result);
  pending.erase(pending.begin() + static_cast<std::ptrdiff_t>(number));
}

void FakeMount::finish_all() {
  while (!pending.empty()) finish(0);
}

void FakeMount::repeat(const void* ring, uint64_t user, int64_t result) {
  done_.push_back({ring, {user, result}});
}

}  // namespace kvsidecar::testing
