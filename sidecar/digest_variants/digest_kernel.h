// SPDX-License-Identifier: Apache-2.0
// The body of one variant. Included once by each digest_*.cc, which names the variant and is
// compiled for its instruction set. Everything here has internal linkage.
#pragma once
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>

#include "sidecar/digest_variants/digest_variant.h"

namespace kvsidecar {
namespace {

uint64_t hash_bytes(const void* bytes, size_t count, uint64_t seed) {
  // The unseeded function works on a constant secret; the seeded one makes its own first.
  return seed == 0 ? XXH3_64bits(bytes, count) : XXH3_64bits_withSeed(bytes, count, seed);
}

uint64_t copy_leaf_bytes(void* to, const void* from, size_t count) {
  std::memcpy(to, from, count);
  return XXH3_64bits(to, count);  // of the copy, still in the cache; never of the peer's memory
}

}  // namespace
}  // namespace kvsidecar
