// SPDX-License-Identifier: Apache-2.0
#define XXH_INLINE_ALL
#include <immintrin.h>
#include <xxhash.h>

#include "sidecar/digest_variants/digest_variant.h"

namespace kvsidecar {
namespace {

struct Lanes {
  using Vector = __m256i;
  static constexpr size_t kBytes = 32;
  static Vector load(const void* from) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(from));
  }
  static void store(void* to, Vector v) { _mm256_storeu_si256(static_cast<__m256i*>(to), v); }
  static void stream(void* to, Vector v) { _mm256_stream_si256(static_cast<__m256i*>(to), v); }
  static Vector exclusive_or(Vector a, Vector b) { return _mm256_xor_si256(a, b); }
  static Vector add(Vector a, Vector b) { return _mm256_add_epi64(a, b); }
  // The low 32 bits of each 64 of both, multiplied to 64.
  static Vector multiply_low(Vector a, Vector b) { return _mm256_mul_epu32(a, b); }
  static Vector shift_right_47(Vector v) { return _mm256_srli_epi64(v, 47); }
  static Vector shift_left_32(Vector v) { return _mm256_slli_epi64(v, 32); }
  static Vector high_to_low(Vector v) { return _mm256_srli_epi64(v, 32); }
  static Vector swap_neighbours(Vector v) {
    return _mm256_shuffle_epi32(v, _MM_SHUFFLE(1, 0, 3, 2));
  }
  static Vector repeat(uint32_t value) { return _mm256_set1_epi32(static_cast<int>(value)); }
};

}  // namespace
}  // namespace kvsidecar

#include "sidecar/digest_variants/digest_kernel.h"

namespace kvsidecar {

const DigestVariant kDigestAvx2{"avx2", hash_bytes, copy_leaf, copy_past_cache};

}  // namespace kvsidecar
