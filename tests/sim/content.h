// SPDX-License-Identifier: Apache-2.0
// Bytes that say what they are: a block is stamped with a number that is used once in a run, and
// whole blocks can be read back into that number. One wrong byte, or two stamps mixed, read as 0.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace kvsidecar::sim {

constexpr uint64_t stamp_word(uint64_t id, uint64_t index) {
  return index == 0 ? id : (id * 0x9e3779b97f4a7c15ull) ^ (index * 0xd1b54a32d192ed03ull);
}

// A multiple of 8 bytes. id > 0.
inline void stamp(std::span<std::byte> block, uint64_t id) {
  for (size_t i = 0; i < block.size() / 8; ++i) {
    const uint64_t word = stamp_word(id, i);
    std::memcpy(block.data() + 8 * i, &word, 8);
  }
}

inline uint64_t stamped(std::span<const std::byte> block) {
  uint64_t id = 0;
  std::memcpy(&id, block.data(), 8);
  for (size_t i = 0; i < block.size() / 8; ++i) {
    const uint64_t word = stamp_word(id, i);
    if (std::memcmp(block.data() + 8 * i, &word, 8) != 0) return 0;
  }
  return id;
}

}  // namespace kvsidecar::sim
