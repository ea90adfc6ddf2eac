// SPDX-License-Identifier: Apache-2.0
#define XXH_INLINE_ALL
#include <immintrin.h>
#include <xxhash.h>

#include "sidecar/digest_variants/digest_variant.h"

namespace kvsidecar {
namespace {

struct Lanes {
  using Vector = __m512i;
  static constexpr size_t kBytes = 64;
  static Vector load(const void* from) { return _mm512_loadu_si512(from); }
  static void store(void* to, Vector v) { _mm512_storeu_si512(to, v); }
  static void stream(void* to, Vector v) { _mm512_stream_si512(static_cast<__m512i*>(to), v); }
  static Vector exclusive_or(Vector a, Vector b) { return _mm512_xor_si512(a, b); }
  static Vector add(Vector a, Vector b) { return _mm512_add_epi64(a, b); }
  // The low 32 bits of each 64 of both, multiplied to 64.
  static Vector multiply_low(Vector a, Vector b) { return _mm512_mul_epu32(a, b); }
  static Vector shift_right_47(Vector v) { return _mm512_srli_epi64(v, 47); }
  static Vector shift_left_32(Vector v) { return _mm512_slli_epi64(v, 32); }
  static Vector high_to_low(Vector v) { return _mm512_srli_epi64(v, 32); }
  static Vector swap_neighbours(Vector v) {
    return _mm512_shuffle_epi32(v, static_cast<_MM_PERM_ENUM>(_MM_SHUFFLE(1, 0, 3, 2)));
  }
  static Vector repeat(uint32_t value) { return _mm512_set1_epi32(static_cast<int>(value)); }
};

}  // namespace
}  // namespace kvsidecar

#include "sidecar/digest_variants/digest_kernel.h"

namespace kvsidecar {

const DigestVariant kDigestAvx512{"avx512", hash_bytes, copy_leaf, copy_past_cache};

}  // namespace kvsidecar
