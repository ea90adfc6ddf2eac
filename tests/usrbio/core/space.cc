// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/core/space.h"

#include <algorithm>
#include <cerrno>

namespace kvsidecar::fake3fs {

void Space::set_bytes_max(uint64_t bytes) {
  std::lock_guard guard(lock_);
  bytes_max_ = bytes;
}

void Space::set_quota_bytes_max(uint64_t bytes) {
  std::lock_guard guard(lock_);
  quota_max_ = bytes;
}

int Space::grow(uint64_t bytes) {
  std::lock_guard guard(lock_);
  if (bytes == 0) return 0;
  if (used_ + bytes > quota_max_) return -EDQUOT;
  if (used_ + bytes > bytes_max_) return -ENOSPC;
  used_ += bytes;
  return 0;
}

void Space::shrink(uint64_t bytes) {
  std::lock_guard guard(lock_);
  used_ -= std::min(used_, bytes);
}

void Space::set_used(uint64_t bytes) {
  std::lock_guard guard(lock_);
  used_ = bytes;
}

uint64_t Space::used() const {
  std::lock_guard guard(lock_);
  return used_;
}

uint64_t Space::bytes_max() const {
  std::lock_guard guard(lock_);
  return bytes_max_;
}

}  // namespace kvsidecar::fake3fs
