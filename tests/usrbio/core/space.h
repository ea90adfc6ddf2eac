// SPDX-License-Identifier: Apache-2.0
// How much may be stored. Chunks count by the bytes stored in them. Any thread.
#pragma once
#include <cstdint>
#include <mutex>

namespace kvsidecar::fake3fs {

class Space {
 public:
  void set_bytes_max(uint64_t bytes);        // beyond: -ENOSPC
  void set_quota_bytes_max(uint64_t bytes);  // beyond: -EDQUOT
  int grow(uint64_t bytes);                  // 0, or -errno and nothing was taken
  void shrink(uint64_t bytes);
  void set_used(uint64_t bytes);  // found at start
  uint64_t used() const;
  uint64_t bytes_max() const;

 private:
  mutable std::mutex lock_;
  uint64_t used_ = 0, bytes_max_ = UINT64_MAX, quota_max_ = UINT64_MAX;
};

}  // namespace kvsidecar::fake3fs
