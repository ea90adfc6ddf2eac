// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/replay/page_content.h"

#include <cstring>

namespace kvsidecar {
namespace {

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15u;

uint64_t mixed(uint64_t word) {
  word = (word ^ (word >> 32)) * 0xd6e8feb86659fd93u;
  return word ^ (word >> 32);
}

// Word i depends on i alone, by one multiplication that becomes an addition in a loop: the compiler
// makes vector code of it, which keeps a page about as cheap as copying it. Words differ between
// pages and between offsets; more is not asked of them.
uint64_t word_at(uint64_t start, uint64_t i) {
  const uint64_t word = start + i * kGolden;
  return word ^ (word >> 32);
}

uint64_t stream_start(uint64_t seed, uint64_t page) {
  return mixed(mixed(seed + kGolden) ^ (page * 0xff51afd7ed558ccdu + 1));
}

}  // namespace

std::array<std::byte, kReplayKeyBytes> replay_key(uint64_t seed, uint64_t page) {
  std::array<std::byte, kReplayKeyBytes> key;
  std::memcpy(key.data(), &seed, sizeof seed);
  std::memcpy(key.data() + sizeof seed, &page, sizeof page);
  return key;
}

void fill_page(uint64_t seed, uint64_t page, std::span<std::byte> bytes) {
  const uint64_t start = stream_start(seed, page);
  std::byte* out = bytes.data();
  for (uint64_t i = 0; i < bytes.size() / 8; ++i) {
    const uint64_t word = word_at(start, i);
    std::memcpy(out + i * 8, &word, 8);
  }
}

uint64_t wrong_bytes(uint64_t seed, uint64_t page, std::span<const std::byte> bytes) {
  const uint64_t start = stream_start(seed, page);
  const std::byte* in = bytes.data();
  uint64_t difference = 0;
  for (uint64_t i = 0; i < bytes.size() / 8; ++i) {
    uint64_t word;
    std::memcpy(&word, in + i * 8, 8);
    difference |= word ^ word_at(start, i);
  }
  if (difference == 0) return 0;
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < bytes.size(); ++i) {
    const uint64_t word = word_at(start, i / 8);
    if (std::to_integer<uint8_t>(in[i]) != static_cast<uint8_t>(word >> (i % 8 * 8))) ++wrong;
  }
  return wrong;
}

}  // namespace kvsidecar
