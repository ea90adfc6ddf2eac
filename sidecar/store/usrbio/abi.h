// SPDX-License-Identifier: Apache-2.0
// The C ABI of libhf3fs_api_shared.so, declared here from its facts: structs with every offset and
// size asserted, constants, and the type of each function that we call. No behaviour. The library
// has no version symbol; this ABI has been the same since it was published.
#pragma once
#include <sys/types.h>
#include <time.h>

#include <cstddef>
#include <cstdint>

namespace kvsidecar::usrbio::abi {

inline constexpr const char* kLibraryName = "libhf3fs_api_shared.so";
inline constexpr size_t kMountPointBytes = 256;  // with its zero
inline constexpr uint64_t kAllowReadUncommitted = 1;
inline constexpr uint64_t kForbidReadHoles = 2;  // leaks its ring: never passed by us

struct Iov {
  uint8_t* base;
  void* handle;  // null: wrapped, the library doesn't own the memory
  uint8_t id[16];
  char mount_point[kMountPointBytes];
  size_t bytes;
  size_t block_bytes;
  int numa;
};

struct Ior {
  Iov iov;
  void* handle;
  char mount_point[kMountPointBytes];
  bool for_read;
  int io_depth;
  int priority;
  int timeout_ms;
  uint64_t flags;
};

struct Cqe {
  int32_t index;
  int32_t reserved;
  int64_t result;
  const void* user;
};

static_assert(sizeof(void*) == 8 && sizeof(size_t) == 8, "the ABI is known for LP64 only");
static_assert(sizeof(Iov) == 312 && alignof(Iov) == 8);
static_assert(offsetof(Iov, base) == 0);
static_assert(offsetof(Iov, handle) == 8);
static_assert(offsetof(Iov, id) == 16);
static_assert(offsetof(Iov, mount_point) == 32);
static_assert(offsetof(Iov, bytes) == 288);
static_assert(offsetof(Iov, block_bytes) == 296);
static_assert(offsetof(Iov, numa) == 304);
static_assert(sizeof(Ior) == 600 && alignof(Ior) == 8);
static_assert(offsetof(Ior, iov) == 0);
static_assert(offsetof(Ior, handle) == 312);
static_assert(offsetof(Ior, mount_point) == 320);
static_assert(offsetof(Ior, for_read) == 576);
static_assert(offsetof(Ior, io_depth) == 580);
static_assert(offsetof(Ior, priority) == 584);
static_assert(offsetof(Ior, timeout_ms) == 588);
static_assert(offsetof(Ior, flags) == 592);
static_assert(sizeof(Cqe) == 24 && alignof(Cqe) == 8);
static_assert(offsetof(Cqe, index) == 0);
static_assert(offsetof(Cqe, reserved) == 4);
static_assert(offsetof(Cqe, result) == 8);
static_assert(offsetof(Cqe, user) == 16);

// Sign conventions: RegFd gives -(number of its own dup) on success and +errno on failure;
// the others 0 (PrepIo: an index) or -errno. Any of them may throw C++ exceptions.
using IsHf3fs = bool(int fd);
using ExtractMountPoint = int(char* into, int into_bytes, const char* path);
using IovWrap = int(Iov* iov, void* base, const uint8_t id[16], const char* mount_point,
                    size_t bytes, size_t block_bytes, int numa);
using IorCreate4 = int(Ior* ior, const char* mount_point, int entries, bool for_read, int io_depth,
                       int timeout_ms, int numa, uint64_t flags);
using IorDestroy = void(Ior* ior);
using RegFd = int(int fd, uint64_t flags);
using DeregFd = void(int fd);
using PrepIo = int(const Ior* ior, const Iov* iov, bool read, void* address, int fd, size_t offset,
                   uint64_t bytes, const void* user);
using SubmitIos = int(const Ior* ior);
// The deadline is of CLOCK_REALTIME; null waits for ever.
using WaitForIos = int(const Ior* ior, Cqe* into, int into_count, int results_min,
                       const timespec* deadline);

}  // namespace kvsidecar::usrbio::abi
