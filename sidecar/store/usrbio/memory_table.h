// SPDX-License-Identifier: Apache-2.0
// Registered memory by address. One owner (the store worker).
#pragma once
#include <algorithm>
#include <memory>
#include <vector>

#include "sidecar/store/usrbio/client.h"

namespace kvsidecar {

class MemoryTable {
 public:
  void add(std::unique_ptr<usrbio::Memory> memory) {
    const auto at =
        std::upper_bound(sorted_.begin(), sorted_.end(), memory->bytes().data(), before);
    sorted_.insert(at, std::move(memory));
  }
  // What holds the range whole; null = none.
  const usrbio::Memory* find(const std::byte* data, uint64_t bytes) const {
    const auto behind = std::upper_bound(sorted_.begin(), sorted_.end(), data, before);
    if (behind == sorted_.begin()) return nullptr;
    const usrbio::Memory& memory = **(behind - 1);
    const uint64_t skipped = static_cast<uint64_t>(data - memory.bytes().data());
    const uint64_t size = memory.bytes().size();
    return skipped <= size && bytes <= size - skipped ? &memory : nullptr;
  }

 private:
  static bool before(const std::byte* data, const std::unique_ptr<usrbio::Memory>& memory) {
    return data < memory->bytes().data();
  }
  std::vector<std::unique_ptr<usrbio::Memory>> sorted_;
};

}  // namespace kvsidecar
