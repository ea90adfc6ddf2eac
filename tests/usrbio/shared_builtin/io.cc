// SPDX-License-Identifier: Apache-2.0
// I/O: prepared, submitted, waited for.
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <ctime>

#include "sidecar/store/usrbio/io_check.h"
#include "tests/usrbio/shared_builtin/mounts.h"
#include "tests/usrbio/shared_builtin/rings.h"

namespace kvsidecar::shared_builtin {
namespace {

constexpr long kSliceNs = 1'000'000, kSecondNs = 1'000'000'000;

bool is_possible(int fd) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 && static_cast<rlim_t>(fd) < limit.rlim_max;
}

int prepare(const Ior* ior, const Iov* iov, bool read, void* address, int fd, uint64_t offset,
            uint64_t bytes, const void* user) {
  RingHandle* handle = handle_of(ior);
  if (!handle || !iov || !iov->base || !address || read != ior->for_read || fd == INT32_MIN)
    return -EINVAL;
  const std::span memory(reinterpret_cast<std::byte*>(iov->base), iov->bytes);
  const auto checked =
      usrbio::check_io(memory, static_cast<std::byte*>(address), bytes, offset, true);
  if (checked.error != 0) return checked.error;
  const auto file = registered(std::abs(fd));
  if (!file) return is_possible(std::abs(fd)) ? -EBADF : -EINVAL;
  if (!(read ? file->readable : file->writable)) return -EACCES;
  usrbio::ClientRing::Io io{{}, checked.memory_offset, file->inode, offset, bytes};
  std::copy(std::begin(iov->id), std::end(iov->id), io.memory.begin());
  const std::lock_guard lock(handle->mutex);
  return handle->ring->end().prepare(io, reinterpret_cast<uint64_t>(user));
}

// How many were ready; -EPROTO once the server wrote nonsense.
int drain(RingHandle& handle, std::span<Cqe> into) {
  std::array<usrbio::ClientRing::Ended, 64> ended;
  const std::lock_guard lock(handle.mutex);
  const size_t got =
      handle.ring->end().poll(std::span(ended).first(std::min(ended.size(), into.size())));
  for (size_t i = 0; i < got; ++i) {
    into[i].index = static_cast<int32_t>(ended[i].slot);
    into[i].result = ended[i].result;
    into[i].user = reinterpret_cast<const void*>(ended[i].user);
  }
  if (got > 0) handle.ring->submit();
  if (got == 0 && !handle.ring->end().fault().ok()) return -EPROTO;
  return static_cast<int>(got);
}

bool is_before(const timespec& a, const timespec& b) {
  return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

timespec after_a_slice() {
  timespec at{};
  ::clock_gettime(CLOCK_REALTIME, &at);
  at.tv_nsec += kSliceNs;
  if (at.tv_nsec >= kSecondNs) {
    at.tv_nsec -= kSecondNs;
    ++at.tv_sec;
  }
  return at;
}

int wait(const Ior* ior, std::span<Cqe> into, int results_min, const timespec* deadline) {
  RingHandle& handle = *handle_of(ior);
  const auto enough = static_cast<size_t>(std::max(results_min, 0));
  size_t count = 0;
  for (bool late = false;;) {
    const int got = drain(handle, into.subspan(count));
    if (got < 0) return count > 0 ? static_cast<int>(count) : got;
    count += static_cast<size_t>(got);
    if (count == into.size()) break;
    if (got > 0) continue;
    if (count >= std::min(enough, into.size()) || late) break;
    timespec until = after_a_slice();
    const bool last = deadline != nullptr && is_before(*deadline, until);
    if (last) until = *deadline;
    if (::sem_timedwait(handle.ring->end().done(), &until) != 0 && errno == ETIMEDOUT)
      late = last;  // what came meanwhile is still taken
  }
  return static_cast<int>(count);
}

}  // namespace
}  // namespace kvsidecar::shared_builtin

using namespace kvsidecar::shared_builtin;  // NOLINT: C functions have no namespace of their own

int hf3fs_prep_io(const Ior* ior, const Iov* iov, bool read, void* address, int fd, size_t offset,
                  uint64_t bytes, const void* user) {
  return without_exceptions(
      [&] { return prepare(ior, iov, read, address, fd, offset, bytes, user); });
}

int hf3fs_submit_ios(const Ior* ior) {
  RingHandle* handle = handle_of(ior);
  if (handle == nullptr) return -EINVAL;
  handle->ring->submit();
  return 0;
}

int hf3fs_wait_for_ios(const Ior* ior, Cqe* into, int into_count, int results_min,
                       const timespec* deadline) {
  if (handle_of(ior) == nullptr || into == nullptr || into_count <= 0) return -EINVAL;
  return without_exceptions([&] {
    return wait(ior, std::span(into, static_cast<size_t>(into_count)), results_min, deadline);
  });
}
