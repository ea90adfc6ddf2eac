// SPDX-License-Identifier: Apache-2.0
// The client's declaration of USRBIO's protocol, written from its facts: the memory of a ring, the
// virtual directory, the ioctls. Only what both sides see; the rules are in client_ring.h.
#pragma once
#include <semaphore.h>
#include <sys/ioctl.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace kvsidecar::usrbio {

// Names. Everything is registered by a symlink in <mount point>/3fs-virt/iovs.
inline constexpr const char* kFileSystemType = "fuse.hf3fs";
inline constexpr const char* kVirtualFolder = "3fs-virt";
inline constexpr const char* kRegistryFolder = "3fs-virt/iovs";
inline constexpr const char* kSharedMemory = "/dev/shm/";
inline constexpr const char* kSemaphorePrefix = "/dev/shm/sem.";
inline constexpr size_t kMountPointMax = 255;

using MemoryId = std::array<uint8_t, 16>;

// A ring's memory: four indices, then three arrays of `places` = entries + 1 each, then the
// semaphore that the server posts once per finished job, then slack. Indices count modulo places;
// empty: head == tail, full: head + 1 == tail.
struct RingIndices {
  int32_t submission_head;  // the client's
  int32_t submission_tail;  // the server's: moves only in order
  int32_t completion_head;  // the server's
  int32_t completion_tail;  // the client's
};
struct IoArguments {
  MemoryId memory;
  uint64_t memory_offset;
  uint64_t inode;
  uint64_t file_offset;
  uint64_t bytes;
  uint64_t user;
};
struct IoCompletion {
  int32_t index;  // of the arguments
  int32_t reserved;
  int64_t result;
  uint64_t user;
};
struct IoSubmission {
  int32_t index;
  int32_t padding;
  uint64_t user;
};
static_assert(sizeof(RingIndices) == 16 && offsetof(RingIndices, submission_tail) == 4 &&
              offsetof(RingIndices, completion_head) == 8 &&
              offsetof(RingIndices, completion_tail) == 12);
static_assert(sizeof(IoArguments) == 56 && offsetof(IoArguments, memory_offset) == 16 &&
              offsetof(IoArguments, inode) == 24 && offsetof(IoArguments, file_offset) == 32 &&
              offsetof(IoArguments, bytes) == 40 && offsetof(IoArguments, user) == 48);
static_assert(sizeof(IoCompletion) == 24 && offsetof(IoCompletion, result) == 8 &&
              offsetof(IoCompletion, user) == 16);
static_assert(sizeof(IoSubmission) == 16 && offsetof(IoSubmission, user) == 8);
static_assert(sizeof(sem_t) == 32 && alignof(sem_t) == 8, "glibc's, on 64-bit machines");

inline constexpr uint32_t kRingEntriesMax = 1u << 20;

struct RingLayout {
  explicit constexpr RingLayout(uint32_t entries) : places(entries + 1) {}
  constexpr size_t arguments() const { return sizeof(RingIndices); }
  constexpr size_t completions() const { return arguments() + sizeof(IoArguments) * places; }
  constexpr size_t submissions() const { return completions() + sizeof(IoCompletion) * places; }
  constexpr size_t semaphore() const { return submissions() + sizeof(IoSubmission) * places; }
  // The server computes `places` back from the file's size, so this is exact.
  constexpr size_t bytes() const { return semaphore() + sizeof(sem_t) + kSlackBytes; }

  static constexpr size_t kSlackBytes = 4096;
  uint32_t places;
};
static_assert(RingLayout(1).bytes() == 4336 && RingLayout(64).bytes() == 10384 &&
              RingLayout(1024).bytes() == 102544);

// ioctls on any file or folder of the mount.
inline constexpr uint32_t kMagic = 0x8f3f5fff;
inline constexpr uint32_t kKnownIoctlVersion = 1;
inline constexpr unsigned long kIoctlMagic = _IOR('h', 2, uint32_t);
inline constexpr unsigned long kIoctlVersion = _IOR('h', 3, uint32_t);
inline constexpr unsigned long kIoctlFsync = _IOR('h', 11, uint32_t);
struct HardlinkArguments {
  uint64_t inode;
  char name[255];
};
struct PunchHoleArguments {
  static constexpr int kRangesMax = 1000;
  int32_t ranges;
  uint64_t flags;
  uint64_t begins[kRangesMax];
  uint64_t ends[kRangesMax];
};
inline constexpr unsigned long kIoctlHardlink = _IOW('h', 12, HardlinkArguments);
inline constexpr unsigned long kIoctlPunchHole = _IOW('h', 13, PunchHoleArguments);
static_assert(kIoctlMagic == 0x80046802 && kIoctlVersion == 0x80046803 &&
              kIoctlFsync == 0x8004680b && kIoctlHardlink == 0x4108680c &&
              kIoctlPunchHole == 0x7e90680d);

}  // namespace kvsidecar::usrbio
