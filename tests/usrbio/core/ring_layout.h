// SPDX-License-Identifier: Apache-2.0
// How a ring lies in shared memory, as the fuse daemon sees it: four indices, then E argument
// slots, E completions, E submissions and a semaphore; E = entries + 1, every index is modulo E.
// Declared here a second time on purpose: the client has a declaration of its own, so a mistake in
// one is found by the other.
#pragma once
#include <semaphore.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace kvsidecar::fake3fs {

using Id = std::array<uint8_t, 16>;  // of an iov or a ring: the uuid's bytes in the text's order

struct IoArgs {
  Id buffer;  // the iov's id
  uint64_t buffer_offset;
  uint64_t inode;
  uint64_t file_offset;
  uint64_t bytes;
  uint64_t user;
};

struct IoCqe {
  int32_t index;
  int32_t reserved;  // left as it is
  int64_t result;
  uint64_t user;
};

struct IoSqe {
  int32_t index;
  int32_t pad;
  uint64_t user;
};

static_assert(sizeof(IoArgs) == 56 && offsetof(IoArgs, buffer_offset) == 16);
static_assert(offsetof(IoArgs, inode) == 24 && offsetof(IoArgs, file_offset) == 32);
static_assert(offsetof(IoArgs, bytes) == 40 && offsetof(IoArgs, user) == 48);
static_assert(sizeof(IoCqe) == 24 && offsetof(IoCqe, result) == 8 && offsetof(IoCqe, user) == 16);
static_assert(sizeof(IoSqe) == 16 && offsetof(IoSqe, user) == 8);
static_assert(sizeof(sem_t) == 32);

inline constexpr uint64_t kHeadBytes = 16;
inline constexpr uint64_t kSlackBytes = 4096;
inline constexpr uint64_t kPerPlaceBytes = sizeof(IoArgs) + sizeof(IoCqe) + sizeof(IoSqe);

// What a client must make its file to get that many entries.
constexpr uint64_t ring_file_bytes(uint64_t entries) {
  return kSlackBytes + kHeadBytes + sizeof(sem_t) + kPerPlaceBytes * (entries + 1);
}

// Usable entries of a file of that size; 0: too small for any.
constexpr uint64_t ring_entries(uint64_t file_bytes) {
  const uint64_t fixed = kSlackBytes + kHeadBytes + sizeof(sem_t);
  if (file_bytes < fixed + 2 * kPerPlaceBytes) return 0;
  return (file_bytes - fixed) / kPerPlaceBytes - 1;
}

static_assert(ring_file_bytes(1) == 4336 && ring_file_bytes(64) == 10384);
static_assert(ring_file_bytes(1024) == 102544 && ring_entries(102544) == 1024);

}  // namespace kvsidecar::fake3fs
