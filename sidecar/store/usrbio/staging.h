// SPDX-License-Identifier: Apache-2.0
// Buffers of registered memory for pages whose own memory isn't: their bytes are copied there and
// back. A fixed number; when none is left, the transfer waits. One owner (the store worker).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kvsidecar {

class Staging {
 public:
  // Empty memory: no buffers.
  Staging(std::span<std::byte> memory, uint64_t buffer_bytes) : buffer_bytes_(buffer_bytes) {
    for (uint64_t at = 0; at + buffer_bytes <= memory.size(); at += buffer_bytes)
      free_.push_back(memory.data() + at);
    buffers_ = free_.size();
  }
  uint64_t buffer_bytes() const { return buffer_bytes_; }
  size_t buffers() const { return buffers_; }
  std::byte* take() {
    if (free_.empty()) return nullptr;
    std::byte* buffer = free_.back();
    free_.pop_back();
    return buffer;
  }
  void give(std::byte* buffer) { free_.push_back(buffer); }

 private:
  const uint64_t buffer_bytes_;
  size_t buffers_ = 0;
  std::vector<std::byte*> free_;
};

}  // namespace kvsidecar
