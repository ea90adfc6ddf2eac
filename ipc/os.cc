// SPDX-License-Identifier: Apache-2.0
#include "ipc/os.h"

#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <boost/interprocess/mapped_region.hpp>
#include <cerrno>
#include <ctime>

namespace kvsidecar {

void UniqueFd::reset(int fd) {
  const int old = std::exchange(fd_, fd);
  if (old >= 0) ::close(old);
}

namespace {

// What mapped_region asks of a memory object: only the descriptor.
class MappableFd {
 public:
  explicit MappableFd(int fd) : fd_(fd) {}
  boost::interprocess::mapping_handle_t get_mapping_handle() const { return {fd_, false}; }

 private:
  int fd_;
};

}  // namespace

struct MappedMemory::Region {
  boost::interprocess::mapped_region mapping;
};

MappedMemory::MappedMemory() = default;
MappedMemory::MappedMemory(MappedMemory&&) noexcept = default;
MappedMemory& MappedMemory::operator=(MappedMemory&&) noexcept = default;
MappedMemory::~MappedMemory() = default;

Result<MappedMemory> MappedMemory::map(int fd, uint64_t offset, uint64_t bytes, Access access) {
  const std::string what =
      "mmap of " + std::to_string(bytes) + " bytes at offset " + std::to_string(offset);
  // 0 would mean "to the end of the file" to Boost.
  if (bytes == 0) return invalid(what + ": bytes is 0; map 1 byte or more");
  if (offset > static_cast<uint64_t>(INT64_MAX) - bytes) {
    return invalid(what + ": the range ends past the largest file offset; make it smaller");
  }
  try {
    const auto mode = access == Access::kReadOnly ? boost::interprocess::read_only
                                                  : boost::interprocess::read_write;
    MappedMemory memory;
    memory.region_ = std::make_unique<Region>(Region{boost::interprocess::mapped_region(
        MappableFd(fd), mode, static_cast<boost::interprocess::offset_t>(offset), bytes)});
    return memory;
  } catch (const boost::interprocess::interprocess_exception& e) {
    return os_error(what, e.get_native_error());
  } catch (const std::bad_alloc&) {
    return os_error(what, ENOMEM);
  }
}

std::byte* MappedMemory::data() const {
  return region_ ? static_cast<std::byte*>(region_->mapping.get_address()) : nullptr;
}

size_t MappedMemory::size() const { return region_ ? region_->mapping.get_size() : 0; }

void futex_wait(const std::atomic<uint32_t>& word, uint32_t expected, uint64_t timeout_ns) {
  timespec timeout{};
  timeout.tv_sec = static_cast<time_t>(timeout_ns / 1'000'000'000);
  timeout.tv_nsec = static_cast<long>(timeout_ns % 1'000'000'000);
  // Not FUTEX_PRIVATE_FLAG: the waiter and the waker are different processes.
  ::syscall(SYS_futex, reinterpret_cast<const uint32_t*>(&word), FUTEX_WAIT, expected, &timeout,
            nullptr, 0);
}

void futex_wake(std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, INT32_MAX, nullptr, nullptr,
            0);
}

Result<UniqueFd> make_eventfd() {
  UniqueFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) return os_error("eventfd", errno);
  return fd;
}

void eventfd_signal(int fd) {
  const uint64_t one = 1;
  // EAGAIN means that the counter is full: the reader has not been lost, it is signalled already.
  while (::write(fd, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void eventfd_drain(int fd) {
  uint64_t count = 0;
  while (::read(fd, &count, sizeof count) < 0 && errno == EINTR) {
  }
}

// A timer: arming it is one step that doesn't depend on what its other holders do.
Result<UniqueFd> make_bell() {
  UniqueFd fd(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!fd) return os_error("timerfd_create", errno);
  return fd;
}

void ring_bell(int fd) {
  const itimerspec at_once{{0, 0}, {0, 1}};
  ::timerfd_settime(fd, 0, &at_once, nullptr);
}

void random_bytes(std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = ::getrandom(out.data(), out.size(), 0);
    KV_CHECK(got > 0 || errno == EINTR);
    if (got > 0) out = out.subspan(static_cast<size_t>(got));
  }
}

uint64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace kvsidecar
