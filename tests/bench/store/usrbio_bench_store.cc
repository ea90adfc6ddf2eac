// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/store/usrbio_bench_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "ipc/os.h"
#include "sidecar/store/usrbio/usrbio_store.h"
#include "tests/conformance/store/store_subject.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kPatienceNs = 30'000'000'000;
constexpr uint64_t kSpinNs = 50'000;  // as the daemon's conductor, before it sleeps

// A chunk of a host pool.
class PoolFile {
 public:
  explicit PoolFile(const std::string& name)
      : path_("/dev/shm/kvsidecar-usrbio-bench-" + std::to_string(::getpid()) + "-" + name) {
    const UniqueFd fd(::open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    KV_CHECK(fd && ::ftruncate(fd.get(), kBenchSlots * kBenchPage) == 0);
    auto mapped = MappedMemory::map(fd.get(), 0, kBenchSlots * kBenchPage, Access::kReadWrite);
    KV_CHECK(mapped.ok());
    memory_ = mapped.take();
    std::memset(memory_.data(), 1, memory_.size());
  }
  ~PoolFile() { (void)::unlink(path_.c_str()); }
  PoolFile(const PoolFile&) = delete;
  PoolFile& operator=(const PoolFile&) = delete;
  const std::string& path() const { return path_; }
  std::span<std::byte> bytes() const { return {memory_.data(), memory_.size()}; }

 private:
  std::string path_;
  MappedMemory memory_;
};

UsrbioStoreOptions options_of(const std::string& library, const std::string& root,
                              Waker& done_waker) {
  UsrbioStoreOptions options;
  options.files.root = options.files.state_directory = root;
  options.files.done_waker = &done_waker;
  options.openers.mount_point = &usrbio::mount_point_of;
  options.openers.client = [library](const std::string& path) {
    return library.empty() ? usrbio::open_builtin(path) : usrbio::open_library(path, library);
  };
  options.pool = "bench-" + std::to_string(::getpid()) + (library.empty() ? "b" : "l");
  return options;
}

class StoreReads final : public PageReads {
 public:
  explicit StoreReads(const std::string& name) : pool_(name) {}
  ~StoreReads() override { worker_.reset(); }

  Status open(const std::string& library, const std::string& root) {
    const auto log = [](StoreLogLevel level, std::string_view, const std::string& text) {
      if (level != StoreLogLevel::kInfo) std::fprintf(stderr, "%s\n", text.c_str());
    };
    auto opened =
        UsrbioStore::open(options_of(library, root, waker_), real_clock(), no_faults(), log);
    if (!opened) return opened.status();
    store_ = opened.take();
    KV_CHECK(store_->register_memory(pool_.path(), pool_.bytes()));
    worker_ = std::make_unique<WorkerThread>(*store_, "store");
    const uint64_t until_ns = monotonic_ns() + kPatienceNs;
    while (store_->usrbio_counters().registered_bytes < pool_.bytes().size()) {
      if (monotonic_ns() > until_ns) return {Code::kTimeout, "the pool was never registered"};
      waker_.announce();
      waker_.sleep(1'000'000);
      waker_.retire();
    }
    return {};
  }

  Status write(size_t pages) {
    const auto space = make_namespace("bench", kBenchPage);
    for (size_t i = 0; i < pages; ++i) {
      const TestPage page(*space, 1, i);
      std::memcpy(pool_.bytes().data(), page.memory.get(), kBenchPage);
      StoreCommand command = page.write(0);
      command.page = pool_.bytes().data();
      KV_CHECK(store_->submit(std::move(command)));
      StoreDone done;
      while (!store_->poll(done)) look_again();
      if (done.status != Code::kOk) return {done.status, "a page of the bench wasn't stored"};
      locations_.push_back(done.location);
    }
    return {};
  }

  Status start(size_t slot, size_t page) override {
    StoreCommand command;
    command.op = StoreOp::kRead;
    command.token = slot;
    command.location = locations_.at(page);
    command.page = pool_.bytes().data() + slot * kBenchPage;
    command.page_bytes = kBenchPage;
    return store_->submit(std::move(command)) ? Status() : Status(Code::kBusy, "the queue is full");
  }
  void submit() override {}
  Result<std::span<const size_t>> wait() override {
    ended_.clear();
    StoreDone done;
    for (const uint64_t begin = monotonic_ns(); ended_.empty();) {
      while (store_->poll(done)) {
        if (done.status != Code::kOk)
          return Status(done.status, "a read of the bench failed: " + store_->describe());
        ended_.push_back(done.token);
      }
      if (ended_.empty() && monotonic_ns() > begin + kSpinNs) look_again();
    }
    return std::span<const size_t>(ended_);
  }
  const std::byte* slot(size_t number) const override {
    return pool_.bytes().data() + number * kBenchPage;
  }

 private:
  void look_again() {
    waker_.announce();
    if (!store_->has_done()) waker_.sleep(10'000'000);
    waker_.retire();
  }

  PoolFile pool_;
  Waker waker_;
  std::unique_ptr<UsrbioStore> store_;
  std::unique_ptr<WorkerThread> worker_;
  std::vector<StoreLocation> locations_;
  std::vector<size_t> ended_;
};

}  // namespace

Result<std::unique_ptr<PageReads>> open_store_reads(const std::string& library,
                                                    const std::string& mount, size_t pages) {
  const std::string root = mount + (library.empty() ? "/builtin" : "/library");
  std::error_code ignored;
  std::filesystem::create_directory(root, ignored);
  auto reads = std::make_unique<StoreReads>(library.empty() ? "builtin" : "library");
  Status status = reads->open(library, root);
  if (status.ok()) status = reads->write(pages);
  if (!status.ok()) return status;
  return std::unique_ptr<PageReads>(std::move(reads));
}

}  // namespace kvsidecar
