// SPDX-License-Identifier: Apache-2.0
//
// An array that grows in blocks which never move: growing by n costs n, however much there is.
// Owned by Eviction, same thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace kvsidecar {

template <typename T>
class BlockArray {
 public:
  explicit BlockArray(uint32_t size) { resize(size); }
  void resize(uint32_t size) {  // grows only
    if (size > size_) size_ = size;
    while (blocks_.size() * kBlock < size_) blocks_.push_back(std::make_unique<T[]>(kBlock));
  }
  T& operator[](uint32_t i) { return blocks_[i / kBlock][i % kBlock]; }
  const T& operator[](uint32_t i) const { return blocks_[i / kBlock][i % kBlock]; }
  uint32_t size() const { return size_; }
  size_t memory_bytes() const { return blocks_.size() * kBlock * sizeof(T); }

 private:
  static constexpr uint32_t kBlock = 1024;
  uint32_t size_ = 0;
  std::vector<std::unique_ptr<T[]>> blocks_;
};

}  // namespace kvsidecar
