// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/clients/bed.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>

#include <atomic>
#include <cstring>
#include <filesystem>

#include "tests/unit/usrbio/leftovers.h"

namespace kvsidecar::usrbio {
namespace {

namespace fs = std::filesystem;
constexpr int kPollsMax = 20'000;

void let_others_work() { ::poll(nullptr, 0, 1); }

}  // namespace

SharedBytes::SharedBytes(size_t bytes) : path_("/dev/shm/" + test_name()) {
  const UniqueFd file(::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  KV_CHECK(::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes)) == 0);
  memory_ = MappedMemory::map(file.get(), 0, bytes, Access::kReadWrite).take();
}

SharedBytes::~SharedBytes() { ::unlink(path_.c_str()); }

std::vector<std::byte> pattern(size_t bytes, uint64_t seed) {
  std::vector<std::byte> made(bytes);
  uint64_t state = seed * 0x9e3779b97f4a7c15ull + 1;
  for (std::byte& byte : made) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    byte = static_cast<std::byte>(state >> 56);
  }
  return made;
}

// Other processes' ring files have a name for a moment too, and a lock as long as they live.
bool is_left_over(const fs::path& file) {
  const UniqueFd opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  return opened && ::flock(opened.get(), LOCK_EX | LOCK_NB) == 0;
}

std::map<std::string, int64_t> belongings() {
  std::map<std::string, int64_t> found;
  for (const auto& entry : fs::directory_iterator("/dev/shm")) {
    const std::string name = entry.path().filename();
    if ((name.starts_with("kvsidecar-ring.") || name.starts_with("hf3fs-iov-")) &&
        is_left_over(entry.path()))
      ++found["file " + name];
  }
  for (const auto& entry : fs::directory_iterator("/proc/self/fd"))
    found["descriptors"] += !entry.path().empty();
  for (const char* name : {"iovs", "rings"}) found[name] = subject().count(name);
  return found;
}

Status Tools::make(const std::string& path, const SharedBytes& shared, RingOptions options) {
  auto opened = subject().open(path);
  if (!opened) return opened.status();
  client = opened.take();
  auto registered = client->register_memory(shared.path(), shared.all());
  if (!registered) return registered.status();
  memory = registered.take();
  options.for_read = true;
  auto ring = client->make_ring(options);
  if (!ring) return ring.status();
  reads = ring.take();
  options.for_read = false;
  ring = client->make_ring(options);
  if (!ring) return ring.status();
  writes = ring.take();
  return {};
}

void ClientTest::SetUp() {
  static std::atomic<int> made{0};
  if (made == 0) sweep_dead_tests();
  folder_ = subject().mount() + "/kvsidecar.test-clients-" + std::to_string(::getpid()) + "-" +
            std::to_string(made++);
  fs::create_directory(folder_);
}

void ClientTest::TearDown() {
  tools_ = {};
  subject().clear_faults();
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

UniqueFd ClientTest::open(const std::string& name, int flags) const {
  UniqueFd fd(::open(path(name).c_str(), flags | O_CLOEXEC, 0600));
  EXPECT_TRUE(fd) << name << ": " << std::strerror(errno);
  return fd;
}

UniqueFd ClientTest::file_of_chunks(const std::string& name,
                                    const std::vector<uint64_t>& chunks) const {
  UniqueFd fd = open(name);
  for (const uint64_t nth : chunks) {
    const auto content = pattern(chunk(), nth + 1);
    EXPECT_EQ(::pwrite(fd.get(), content.data(), content.size(), static_cast<off_t>(nth * chunk())),
              static_cast<ssize_t>(content.size()));
  }
  EXPECT_EQ(::fsync(fd.get()), 0);
  return fd;
}

std::unique_ptr<File> ClientTest::registered(int fd) {
  auto file = tools_.client->register_file(fd);
  EXPECT_TRUE(file.ok()) << file.status().text();
  return file ? file.take() : nullptr;
}

std::vector<Completion> ClientTest::wait(Ring& ring, size_t count) {
  std::vector<Completion> found(count);
  size_t got = 0;
  const bool all = eventually([&] {
    got += ring.poll(std::span(found).subspan(got));
    return got == count;
  });
  EXPECT_TRUE(all) << got << " of " << count << " completions; " << ring.fault().text();
  found.resize(got);
  return found;
}

int64_t ClientTest::transfer(Ring& ring, const File& file, uint64_t offset, size_t count,
                             size_t memory_offset) {
  const int taken =
      ring.prepare(*tools_.memory, shared_.all().data() + memory_offset, count, file, offset, 4711);
  if (taken != 0) return taken;
  ring.submit();
  const auto ended = wait(ring, 1);
  if (ended.empty()) return INT64_MIN;
  EXPECT_EQ(ended[0].user, 4711u);
  return ended[0].result;
}

bool eventually(const std::function<bool()>& holds) {
  for (int polls = 0; polls < kPollsMax; ++polls) {
    if (holds()) return true;
    let_others_work();
  }
  return false;
}

}  // namespace kvsidecar::usrbio
