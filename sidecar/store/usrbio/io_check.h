// SPDX-License-Identifier: Apache-2.0
// What both clients refuse before the other side sees it: ranges outside the memory (the server
// checks only the first of several, the library overflows), offsets beyond what a file can have,
// a file that wasn't opened for this.
#pragma once
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ipc/result.h"
#include "sidecar/store/usrbio/client.h"
#include "sidecar/store/usrbio/protocol.h"

namespace kvsidecar::usrbio {

struct CheckedIo {
  int error = 0;  // -errno
  uint64_t memory_offset = 0;
};

inline CheckedIo check_io(std::span<std::byte> memory, const std::byte* address, uint64_t bytes,
                          uint64_t file_offset, bool allowed) {
  if (!allowed) return {-EACCES};
  const auto begin = reinterpret_cast<uintptr_t>(memory.data());
  const auto at = reinterpret_cast<uintptr_t>(address);
  if (bytes == 0 || at < begin || at - begin > memory.size() ||
      bytes > memory.size() - (at - begin))
    return {-EINVAL};
  if (file_offset > INT64_MAX || bytes > INT64_MAX - file_offset) return {-EINVAL};
  return {0, at - begin};
}

inline Status check_ring_options(const RingOptions& options) {
  if (options.entries < 1 || options.entries > kRingEntriesMax)
    return invalid("a ring of " + std::to_string(options.entries) + " entries: 1 to " +
                   std::to_string(kRingEntriesMax) + " are possible");
  if (options.io_depth > 0)
    return invalid("a ring with io_depth " + std::to_string(options.io_depth) +
                   ": 3FS would never start a remainder; use 0 or less");
  return {};
}

// More than was asked for is what the server says when it folds holes of several requests into one:
// such a count says nothing about the bytes.
inline int64_t checked_result(int64_t result, uint64_t bytes) {
  return result > 0 && static_cast<uint64_t>(result) > bytes ? -EIO : result;
}

}  // namespace kvsidecar::usrbio
