// SPDX-License-Identifier: Apache-2.0
#include "sidecar/digest.h"

#include <vector>

#include "sidecar/digest_variants/digest_variant.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace kvsidecar {
namespace {

struct Supported {
  const DigestVariant* variants[3] = {&kDigestBaseline, nullptr, nullptr};
  size_t count = 1;
};

Supported find_supported() {
  Supported found;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) found.variants[found.count++] = &kDigestAvx2;
  if (__builtin_cpu_supports("avx512f")) found.variants[found.count++] = &kDigestAvx512;
#endif
  return found;
}

const Supported& supported() {
  static const Supported found = find_supported();
  return found;
}

void put_le64(std::byte* out, uint64_t value) {
  for (int i = 0; i < 8; ++i) out[i] = static_cast<std::byte>(value >> (8 * i));
}

// XXH3-64 of the values' little-endian bytes, after `first` if there is one.
uint64_t hash_values(const uint64_t* first, std::span<const uint64_t> values, uint64_t seed) {
  constexpr size_t kOnStack = 512;  // a part of 32 MiB
  const size_t bytes = 8 * (values.size() + (first != nullptr ? 1 : 0));
  std::byte small[8 * kOnStack];
  std::vector<std::byte> large;
  std::byte* out = small;
  if (bytes > sizeof small) {
    large.resize(bytes);
    out = large.data();
  }
  std::byte* at = out;
  if (first != nullptr) {
    put_le64(at, *first);
    at += 8;
  }
  for (const uint64_t value : values) {
    put_le64(at, value);
    at += 8;
  }
  return digest_variant_in_use().hash(out, bytes, seed);
}

}  // namespace

const DigestVariant* const* supported_digest_variants(size_t& count) {
  count = supported().count;
  return supported().variants;
}

const DigestVariant& digest_variant_in_use() {
  static const DigestVariant& chosen = *supported().variants[supported().count - 1];
  return chosen;
}

void publish_copies() {
#if defined(__x86_64__)
  _mm_sfence();  // a release store doesn't wait for stores that went past the cache
#endif
}

uint64_t leaf_digest(const std::byte* leaf, size_t bytes) {
  return digest_variant_in_use().hash(leaf, bytes, 0);
}

uint64_t part_digest(uint64_t part_bytes, std::span<const uint64_t> leaves, uint64_t seed) {
  return hash_values(&part_bytes, leaves, seed);
}

uint64_t part_digest(Bytes part, uint64_t seed) {
  std::vector<uint64_t> leaves(leaf_count(part.size()));
  for (size_t i = 0; i < leaves.size(); ++i) {
    const size_t start = i * kLeafBytes;
    const size_t left = part.size() - start;
    leaves[i] = leaf_digest(part.data() + start, left < kLeafBytes ? left : kLeafBytes);
  }
  return part_digest(part.size(), leaves, seed);
}

uint64_t page_digest(std::span<const uint64_t> part_digests) {
  return hash_values(nullptr, part_digests, 0);
}

const char* digest_variant() { return digest_variant_in_use().name; }

}  // namespace kvsidecar
