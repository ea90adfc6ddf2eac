// SPDX-License-Identifier: Apache-2.0
// What the tests and the emulator know of libhf3fs_api_shared.so's C interface: three structs,
// their layout, 21 functions. Declared apart from production's: a mistake in one is found by the
// other.
//
// Signs: -errno, but reg_fd, hardlink and punchhole, which return errno. reg_fd: 0 or less = taken.
#pragma once
#include <sys/types.h>
#include <time.h>

#include <cstddef>
#include <cstdint>

extern "C" {

struct hf3fs_iov {
  uint8_t* base;
  void* iovh;  // null: not of the library's making (iovwrap)
  uint8_t id[16];
  char mount_point[256];
  size_t size;
  size_t block_size;  // 0: one block
  int numa;           // below 0: anywhere
};

struct hf3fs_ior {
  hf3fs_iov iov;
  void* iorh;
  char mount_point[256];
  bool for_read;
  int io_depth;
  int priority;
  int timeout;  // ms
  uint64_t flags;
};

struct hf3fs_cqe {
  int32_t index;
  int32_t reserved;
  int64_t result;  // bytes or -errno
  const void* userdata;
};

}  // extern "C"

static_assert(sizeof(hf3fs_iov) == 312 && offsetof(hf3fs_iov, iovh) == 8);
static_assert(offsetof(hf3fs_iov, id) == 16 && offsetof(hf3fs_iov, mount_point) == 32);
static_assert(offsetof(hf3fs_iov, size) == 288 && offsetof(hf3fs_iov, block_size) == 296);
static_assert(offsetof(hf3fs_iov, numa) == 304);
static_assert(sizeof(hf3fs_ior) == 600 && offsetof(hf3fs_ior, iorh) == 312);
static_assert(offsetof(hf3fs_ior, mount_point) == 320 && offsetof(hf3fs_ior, for_read) == 576);
static_assert(offsetof(hf3fs_ior, io_depth) == 580 && offsetof(hf3fs_ior, priority) == 584);
static_assert(offsetof(hf3fs_ior, timeout) == 588 && offsetof(hf3fs_ior, flags) == 592);
static_assert(sizeof(hf3fs_cqe) == 24 && offsetof(hf3fs_cqe, result) == 8);
static_assert(offsetof(hf3fs_cqe, userdata) == 16);

constexpr uint64_t kReadUncommitted = 1;
constexpr uint64_t kForbidReadHoles = 2;

// X(name, result, parameters) for each function.
#define KVS_HF3FS_FUNCTIONS(X)                                                                    \
  X(is_hf3fs, bool, (int fd))                                                                     \
  X(extract_mount_point, int, (char* into, int bytes, const char* path))                          \
  X(iovcreate, int,                                                                               \
    (hf3fs_iov * iov, const char* mount, size_t size, size_t block_size, int numa))               \
  X(iovopen, int,                                                                                 \
    (hf3fs_iov * iov, const uint8_t* id, const char* mount, size_t size, size_t block_size,       \
     int numa))                                                                                   \
  X(iovunlink, void, (hf3fs_iov * iov))                                                           \
  X(iovdestroy, void, (hf3fs_iov * iov))                                                          \
  X(ior_size, size_t, (int entries))                                                              \
  X(iovwrap, int,                                                                                 \
    (hf3fs_iov * iov, void* base, const uint8_t* id, const char* mount, size_t size,              \
     size_t block_size, int numa))                                                                \
  X(iorcreate, int,                                                                               \
    (hf3fs_ior * ior, const char* mount, int entries, bool for_read, int io_depth, int numa))     \
  X(iorcreate2, int,                                                                              \
    (hf3fs_ior * ior, const char* mount, int entries, bool for_read, int io_depth, int priority,  \
     int numa))                                                                                   \
  X(iorcreate3, int,                                                                              \
    (hf3fs_ior * ior, const char* mount, int entries, bool for_read, int io_depth, int priority,  \
     int timeout, int numa))                                                                      \
  X(iorcreate4, int,                                                                              \
    (hf3fs_ior * ior, const char* mount, int entries, bool for_read, int io_depth, int timeout,   \
     int numa, uint64_t flags))                                                                   \
  X(iordestroy, void, (hf3fs_ior * ior))                                                          \
  X(io_entries, int, (const hf3fs_ior* ior))                                                      \
  X(prep_io, int,                                                                                 \
    (const hf3fs_ior* ior, const hf3fs_iov* iov, bool read, void* address, int fd, size_t offset, \
     uint64_t bytes, const void* userdata))                                                       \
  X(submit_ios, int, (const hf3fs_ior* ior))                                                      \
  X(wait_for_ios, int,                                                                            \
    (const hf3fs_ior* ior, hf3fs_cqe* into, int into_count, int min_results,                      \
     const timespec* until))                                                                      \
  X(reg_fd, int, (int fd, uint64_t flags))                                                        \
  X(dereg_fd, void, (int fd))                                                                     \
  X(hardlink, int, (const char* target, const char* link_name))                                   \
  X(punchhole, int, (int fd, int count, const size_t* start, const size_t* end, size_t flags))
