// SPDX-License-Identifier: Apache-2.0
// Digests of pages. leaf i = XXH3-64(bytes of the part's 64 KiB leaf i, seed 0; the last may be
// short); part digest = XXH3-64(le64 part bytes, le64 leaf 0, le64 leaf 1, …; seed =
// part_seed(page, coordinate)); page digest = XXH3-64(le64 part digests in declared order, seed 0).
// XXH3 is inlined in variants (SSE2, AVX2, AVX-512) chosen once at run time. Pure; any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "ipc/identity.h"

namespace kvsidecar {

inline constexpr uint64_t kLeafBytes = 64 * 1024;
constexpr uint64_t leaf_count(uint64_t part_bytes) {
  return (part_bytes + kLeafBytes - 1) / kLeafBytes;
}

uint64_t leaf_digest(const std::byte* leaf, size_t bytes);
uint64_t part_digest(uint64_t part_bytes, std::span<const uint64_t> leaves, uint64_t seed);
uint64_t part_digest(Bytes part, uint64_t seed);  // all leaves, in this thread
uint64_t page_digest(std::span<const uint64_t> part_digests);
const char* digest_variant();  // "sse2", "avx2", "avx512": for the log and `doctor`

}  // namespace kvsidecar
