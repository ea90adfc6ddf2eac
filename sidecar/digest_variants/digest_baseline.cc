// SPDX-License-Identifier: Apache-2.0
#define XXH_INLINE_ALL
#include <xxhash.h>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include <cstring>

#include "sidecar/digest_variants/digest_variant.h"

#if defined(__x86_64__)
namespace kvsidecar {
namespace {

struct Lanes {
  using Vector = __m128i;
  static constexpr size_t kBytes = 16;
  static Vector load(const void* from) {
    return _mm_loadu_si128(static_cast<const __m128i*>(from));
  }
  static void store(void* to, Vector v) { _mm_storeu_si128(static_cast<__m128i*>(to), v); }
  static void stream(void* to, Vector v) { _mm_stream_si128(static_cast<__m128i*>(to), v); }
  static Vector exclusive_or(Vector a, Vector b) { return _mm_xor_si128(a, b); }
  static Vector add(Vector a, Vector b) { return _mm_add_epi64(a, b); }
  // The low 32 bits of each 64 of both, multiplied to 64.
  static Vector multiply_low(Vector a, Vector b) { return _mm_mul_epu32(a, b); }
  static Vector shift_right_47(Vector v) { return _mm_srli_epi64(v, 47); }
  static Vector shift_left_32(Vector v) { return _mm_slli_epi64(v, 32); }
  static Vector high_to_low(Vector v) { return _mm_srli_epi64(v, 32); }
  static Vector swap_neighbours(Vector v) { return _mm_shuffle_epi32(v, _MM_SHUFFLE(1, 0, 3, 2)); }
  static Vector repeat(uint32_t value) { return _mm_set1_epi32(static_cast<int>(value)); }
};

}  // namespace
}  // namespace kvsidecar

#include "sidecar/digest_variants/digest_kernel.h"

namespace kvsidecar {

const DigestVariant kDigestBaseline{"sse2", hash_bytes, copy_leaf, copy_past_cache};

}  // namespace kvsidecar
#else
namespace kvsidecar {
namespace {

uint64_t hash_bytes(const void* bytes, size_t count, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes, count, seed);
}

uint64_t copy_leaf(void* to, const CopySource* sources, size_t count, size_t bytes) {
  size_t done = 0;
  for (size_t i = 0; i < count; done += sources[i].bytes, ++i)
    std::memcpy(static_cast<char*>(to) + done, sources[i].from, sources[i].bytes);
  return hash_bytes(to, bytes, 0);
}

void copy_past_cache(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }

}  // namespace

#if defined(__aarch64__)
const DigestVariant kDigestBaseline{"neon", hash_bytes, copy_leaf, copy_past_cache};
#else
const DigestVariant kDigestBaseline{"scalar", hash_bytes, copy_leaf, copy_past_cache};
#endif

}  // namespace kvsidecar
#endif
