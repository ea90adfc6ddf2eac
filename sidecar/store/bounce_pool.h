// SPDX-License-Identifier: Apache-2.0
// Aligned buffers between the disk and memory that isn't: trailers, directories, packed pages. One
// block of memory (so that it can be registered with the kernel), cut into three sizes; when a size
// has none left, or more is asked for, the heap serves. One owner; buffers must not outlive it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace kvsidecar {

class BouncePool {
 public:
  // In this memory (4 KiB aligned, bytes_needed() of it), or in its own where it is empty.
  explicit BouncePool(std::span<std::byte> memory = {});
  ~BouncePool();
  BouncePool(const BouncePool&) = delete;
  BouncePool& operator=(const BouncePool&) = delete;

  static uint64_t bytes_needed();

  struct Return {
    BouncePool* pool = nullptr;
    int size_class = -1;  // -1 = heap
    void operator()(std::byte* buffer) const;
  };
  using Buffer = std::unique_ptr<std::byte, Return>;
  // 4 KiB aligned, at least that long, content undefined.
  Buffer take(uint64_t bytes);
  std::span<std::byte> memory() const { return {memory_, memory_bytes_}; }

 private:
  bool own_ = false;
  std::byte* memory_ = nullptr;
  size_t memory_bytes_ = 0;
  std::vector<std::vector<std::byte*>> free_;
};

}  // namespace kvsidecar
