// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/store/usrbio_bench_bare.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "ipc/os.h"
#include "tests/usrbio/shared_builtin/c_functions.h"

namespace kvsidecar {
namespace {

// Jobs as small as the daemon's (ring_options in mounted.cc).
constexpr int kJob = -4;
// Reads that end out of order leave less room than is free.
constexpr int kEntries = 8 * kBenchSlots;

struct Functions {
  decltype(&::hf3fs_iovcreate) iovcreate = nullptr;
  decltype(&::hf3fs_iovdestroy) iovdestroy = nullptr;
  decltype(&::hf3fs_iorcreate4) iorcreate4 = nullptr;
  decltype(&::hf3fs_iordestroy) iordestroy = nullptr;
  decltype(&::hf3fs_reg_fd) reg_fd = nullptr;
  decltype(&::hf3fs_dereg_fd) dereg_fd = nullptr;
  decltype(&::hf3fs_prep_io) prep_io = nullptr;
  decltype(&::hf3fs_submit_ios) submit_ios = nullptr;
  decltype(&::hf3fs_wait_for_ios) wait_for_ios = nullptr;
};

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

Result<Functions> load(const std::string& path) {
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Status(Code::kInvalid, ::dlerror());
  Functions f;
  if (find(library, "hf3fs_iovcreate", f.iovcreate) &&
      find(library, "hf3fs_iovdestroy", f.iovdestroy) &&
      find(library, "hf3fs_iorcreate4", f.iorcreate4) &&
      find(library, "hf3fs_iordestroy", f.iordestroy) && find(library, "hf3fs_reg_fd", f.reg_fd) &&
      find(library, "hf3fs_dereg_fd", f.dereg_fd) && find(library, "hf3fs_prep_io", f.prep_io) &&
      find(library, "hf3fs_submit_ios", f.submit_ios) &&
      find(library, "hf3fs_wait_for_ios", f.wait_for_ios))
    return f;
  return Status(Code::kInvalid, path + " lacks a function of the C API");
}

class BareReads final : public PageReads {
 public:
  explicit BareReads(const Functions& functions) : f_(functions) {}
  ~BareReads() override {
    if (ring_made_) f_.iordestroy(&ring_);
    if (memory_made_) f_.iovdestroy(&memory_);
    if (registered_) f_.dereg_fd(file_.get());
  }

  Status open(const std::string& mount, size_t pages) {
    const std::string path = mount + "/bare";
    file_ = UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!file_) return os_error(path, errno);
    std::vector<std::byte> page(kBenchPage);
    for (size_t i = 0; i < pages; ++i) {
      std::memset(page.data(), static_cast<int>(i + 1), page.size());
      const auto put =
          ::pwrite(file_.get(), page.data(), page.size(), static_cast<off_t>(i * page.size()));
      if (put != static_cast<ssize_t>(page.size())) return os_error(path, errno);
    }
    int error = f_.iovcreate(&memory_, mount.c_str(), kBenchSlots * kBenchPage, 0, -1);
    if (error != 0) return os_error("hf3fs_iovcreate", -error);
    memory_made_ = true;
    std::memset(memory_.base, 0, memory_.bytes);
    error = f_.iorcreate4(&ring_, mount.c_str(), kEntries, true, kJob, 0, -1, 0);
    if (error != 0) return os_error("hf3fs_iorcreate4", -error);
    ring_made_ = true;
    error = f_.reg_fd(file_.get(), 0);
    if (error > 0) return os_error("hf3fs_reg_fd", error);
    registered_ = true;
    return {};
  }

  Status start(size_t slot, size_t page) override {
    const int error =
        f_.prep_io(&ring_, &memory_, true, memory_.base + slot * kBenchPage, file_.get(),
                   page * kBenchPage, kBenchPage, reinterpret_cast<const void*>(slot));
    return error < 0 ? os_error("hf3fs_prep_io", -error) : Status();
  }
  void submit() override { (void)f_.submit_ios(&ring_); }
  Result<std::span<const size_t>> wait() override {
    Cqe batch[kBenchSlots];
    const int got = f_.wait_for_ios(&ring_, batch, kBenchSlots, 1, nullptr);
    if (got < 1) return os_error("hf3fs_wait_for_ios", -got);
    ended_.clear();
    for (const Cqe& one : std::span(batch, static_cast<size_t>(got))) {
      if (one.result != static_cast<int64_t>(kBenchPage))
        return Status(Code::kIoError, "a bare read gave " + std::to_string(one.result));
      ended_.push_back(reinterpret_cast<size_t>(one.user));
    }
    return std::span<const size_t>(ended_);
  }
  const std::byte* slot(size_t number) const override {
    return reinterpret_cast<const std::byte*>(memory_.base) + number * kBenchPage;
  }

 private:
  const Functions f_;
  UniqueFd file_;
  Iov memory_{};
  Ior ring_{};
  bool memory_made_ = false, ring_made_ = false, registered_ = false;
  std::vector<size_t> ended_;
};

}  // namespace

Result<std::unique_ptr<PageReads>> open_bare_reads(const std::string& library,
                                                   const std::string& mount, size_t pages) {
  const auto functions = load(library);
  if (!functions) return functions.status();
  auto reads = std::make_unique<BareReads>(*functions);
  if (Status opened = reads->open(mount, pages); !opened.ok()) return opened;
  return std::unique_ptr<PageReads>(std::move(reads));
}

}  // namespace kvsidecar
