// SPDX-License-Identifier: Apache-2.0
// The block allocator of a replayed engine: blocks 0 .. count-1, handed out in an order that is
// shuffled by use, as a real engine's are. One thread.
#pragma once
#include <cstdint>
#include <numeric>
#include <vector>

#include "ipc/result.h"

namespace kvsidecar {

class Blocks {
 public:
  explicit Blocks(uint32_t count) : count_(count), free_(count) {
    std::iota(free_.begin(), free_.end(), 0u);
  }
  size_t available() const { return free_.size(); }
  // REQUIRES: count <= available().
  std::vector<uint32_t> take(size_t count) {
    KV_CHECK(count <= free_.size());
    std::vector<uint32_t> taken;
    taken.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      state_ = state_ * 6364136223846793005u + 1442695040888963407u;
      const size_t at = static_cast<size_t>((state_ >> 33) % free_.size());
      taken.push_back(free_[at]);
      free_[at] = free_.back();
      free_.pop_back();
    }
    return taken;
  }
  void give_back(const std::vector<uint32_t>& blocks) {
    free_.insert(free_.end(), blocks.begin(), blocks.end());
    KV_CHECK(free_.size() <= count_);
  }

 private:
  size_t count_;
  std::vector<uint32_t> free_;
  uint64_t state_ = 1;
};

}  // namespace kvsidecar
