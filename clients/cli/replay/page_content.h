// SPDX-License-Identifier: Apache-2.0
// What a page of a replay holds: a stream of pseudo-random words that follows from seed and page
// number, so that every process can say what a page must be without asking anybody. Pure; any
// thread.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace kvsidecar {

inline constexpr uint32_t kReplayKeyBytes = 16;

// The key of a page of the trace: seed and page number, little-endian.
std::array<std::byte, kReplayKeyBytes> replay_key(uint64_t seed, uint64_t page);

// Sizes are multiples of 8.
void fill_page(uint64_t seed, uint64_t page, std::span<std::byte> bytes);
// Every byte is compared; 0 = the page is exactly what fill_page makes.
uint64_t wrong_bytes(uint64_t seed, uint64_t page, std::span<const std::byte> bytes);

}  // namespace kvsidecar
