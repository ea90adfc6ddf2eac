// SPDX-License-Identifier: Apache-2.0
// Numbers of a fixed set (claim words, progress words) that are lent and come back: first in, first
// out, so that a word rests as long as possible before it is used again. No words of memory are
// touched. Under the client's mutex.
#pragma once
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "ipc/result.h"

namespace kvsidecar::clientlib {

class ClaimPool {
 public:
  explicit ClaimPool(uint32_t words) : words_(words) {
    for (uint32_t i = 0; i < words; ++i) free_.push_back(i);
  }
  uint32_t free() const { return static_cast<uint32_t>(free_.size()); }
  uint32_t size() const { return words_; }
  // All `count` of them or none.
  bool take(uint32_t count, std::vector<uint32_t>& out) {
    if (count > free_.size()) return false;
    out.assign(free_.begin(), free_.begin() + count);
    free_.erase(free_.begin(), free_.begin() + count);
    return true;
  }
  // Only numbers that were taken; each once.
  void give_back(std::span<const uint32_t> numbers) {
    for (const uint32_t number : numbers) KV_CHECK(number < words_);
    free_.insert(free_.end(), numbers.begin(), numbers.end());
    KV_CHECK(free_.size() <= words_);
  }

 private:
  uint32_t words_;
  std::deque<uint32_t> free_;
};

}  // namespace kvsidecar::clientlib
