// SPDX-License-Identifier: Apache-2.0
// The loops over page bytes, compiled for several instruction sets: XXH3, XXH3 of bytes while they
// are copied, and copying past the cache. Each variant lies in a source of its own that is compiled
// with the flags of its set and shares no inline function with the rest of the program, so that the
// linker can't put an AVX instruction into code that runs everywhere. Any thread. A variant that
// this CPU doesn't have must not be called.
#pragma once
#include <cstddef>
#include <cstdint>

namespace kvsidecar {

struct CopySource {
  const void* from;
  size_t bytes;
};

// Ranges never overlap. Copies may be written past the cache: publish_copies() before anybody else
// is told of them.
struct DigestVariant {
  const char* name;
  uint64_t (*hash)(const void* bytes, size_t count, uint64_t seed);
  // Joins the sources (1 at least, `bytes` in all, at most 64 KiB) at `to`. Returns XXH3-64(seed 0)
  // of what was written, even when the sources change meanwhile.
  uint64_t (*copy_leaf)(void* to, const CopySource* sources, size_t count, size_t bytes);
  void (*copy_past_cache)(void* to, const void* from, size_t bytes);
};

extern const DigestVariant kDigestBaseline;  // SSE2 on x86-64, what XXH3 finds elsewhere
#if defined(__x86_64__)
extern const DigestVariant kDigestAvx2;
extern const DigestVariant kDigestAvx512;
#endif

// The variants that this CPU has, slowest first; `count` gets their number (at least 1).
const DigestVariant* const* supported_digest_variants(size_t& count);
// The one in use: the last of them, chosen once.
const DigestVariant& digest_variant_in_use();
// Orders this thread's copies before its later stores.
void publish_copies();

}  // namespace kvsidecar
