// SPDX-License-Identifier: Apache-2.0
// The same XXH3 functions compiled for several instruction sets. Each variant lies in a source of
// its own that is compiled with the flags of its set and shares no inline function with the rest of
// the program, so that the linker can't put an AVX instruction into code that runs everywhere.
// Pure; any thread. A variant that this CPU doesn't have must not be called.
#pragma once
#include <cstddef>
#include <cstdint>

namespace kvsidecar {

struct DigestVariant {
  const char* name;
  uint64_t (*hash)(const void* bytes, size_t count, uint64_t seed);
  // Copies 1 to 64 KiB and returns XXH3-64(seed 0) of the bytes that were written. The two ranges
  // must not overlap. The source may change meanwhile: what is hashed is what was written.
  uint64_t (*copy_leaf)(void* to, const void* from, size_t count);
};

extern const DigestVariant kDigestBaseline;  // SSE2 on x86-64, NEON or scalar elsewhere
#if defined(__x86_64__)
extern const DigestVariant kDigestAvx2;
extern const DigestVariant kDigestAvx512;
#endif

// The variants that this CPU has, slowest first; `count` gets their number (at least 1).
const DigestVariant* const* supported_digest_variants(size_t& count);
// The one in use: the last of them, chosen once.
const DigestVariant& digest_variant_in_use();

}  // namespace kvsidecar
