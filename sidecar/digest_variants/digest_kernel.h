// SPDX-License-Identifier: Apache-2.0
// The body of one variant, written over `Lanes`, the vector of its instruction set: define Lanes,
// then include this, once in each digest_*.cc. Everything here has internal linkage.
//
// XXH3 of more than 240 bytes keeps 8 sums of 64 bits. Each stripe of 64 bytes is added to them
// under a key that moves on by 8 bytes a stripe; after 16 stripes, a block, the sums are scrambled.
// The last stripe, which may overlap the one before, has a key of its own. So a copy can add each
// vector to the sums between its load and its store, and reads memory once.
#pragma once
#include <cstring>

namespace kvsidecar {
namespace {

uint64_t hash_bytes(const void* bytes, size_t count, uint64_t seed) {
  // The unseeded function works on a constant secret; the seeded one makes its own first.
  return seed == 0 ? XXH3_64bits(bytes, count) : XXH3_64bits_withSeed(bytes, count, seed);
}

constexpr size_t kStripe = 64, kBlock = 1024, kVectors = kStripe / Lanes::kBytes;
constexpr size_t kReadAhead = 2048;
constexpr size_t kScrambleKey = sizeof XXH3_kSecret - kStripe;
constexpr size_t kLastStripeKey = kScrambleKey - 7, kMergeKey = 11;
using Vector = Lanes::Vector;

struct Sums {
  Vector vectors[kVectors];
};

inline Sums first_sums() {
  alignas(64) const uint64_t start[8] = XXH3_INIT_ACC;
  Sums sums;
  for (size_t i = 0; i < kVectors; ++i)
    sums.vectors[i] = Lanes::load(reinterpret_cast<const char*>(start) + i * Lanes::kBytes);
  return sums;
}

inline uint64_t merge(const Sums& sums, size_t bytes) {
  alignas(64) uint64_t all[8];
  for (size_t i = 0; i < kVectors; ++i)
    Lanes::store(reinterpret_cast<char*>(all) + i * Lanes::kBytes, sums.vectors[i]);
  return XXH3_mergeAccs(all, XXH3_kSecret + kMergeKey, bytes * XXH_PRIME64_1);
}

inline Vector add_vector(Vector sum, Vector data, const void* key) {
  const Vector keyed = Lanes::exclusive_or(data, Lanes::load(key));
  const Vector product = Lanes::multiply_low(keyed, Lanes::high_to_low(keyed));
  return Lanes::add(product, Lanes::add(sum, Lanes::swap_neighbours(data)));
}

inline void add_stripe(Sums& sums, const char* data, const unsigned char* key) {
  for (size_t i = 0; i < kVectors; ++i)
    sums.vectors[i] =
        add_vector(sums.vectors[i], Lanes::load(data + i * Lanes::kBytes), key + i * Lanes::kBytes);
}

inline void scramble(Sums& sums) {
  const Vector prime = Lanes::repeat(XXH_PRIME32_1);
  for (size_t i = 0; i < kVectors; ++i) {
    const Vector mixed =
        Lanes::exclusive_or(sums.vectors[i], Lanes::shift_right_47(sums.vectors[i]));
    const Vector keyed =
        Lanes::exclusive_or(mixed, Lanes::load(XXH3_kSecret + kScrambleKey + i * Lanes::kBytes));
    const Vector high = Lanes::multiply_low(Lanes::high_to_low(keyed), prime);
    sums.vectors[i] = Lanes::add(Lanes::multiply_low(keyed, prime), Lanes::shift_left_32(high));
  }
}

template <bool kPastCache>
void copy_blocks(Sums& sums, char* to, const char* from, size_t bytes) {
  Sums local = sums;  // in registers for the whole loop
  for (size_t block = 0; block < bytes; block += kBlock) {
    for (size_t stripe = 0; stripe < kBlock; stripe += kStripe) {
      __builtin_prefetch(from + block + stripe + kReadAhead);
      const unsigned char* const key = XXH3_kSecret + stripe / 8;
      for (size_t i = 0; i < kVectors; ++i) {
        const size_t at = block + stripe + i * Lanes::kBytes;
        const Vector data = Lanes::load(from + at);
        kPastCache ? Lanes::stream(to + at, data) : Lanes::store(to + at, data);
        local.vectors[i] = add_vector(local.vectors[i], data, key + i * Lanes::kBytes);
      }
    }
    scramble(local);
  }
  sums = local;
}

bool whole_blocks(const CopySource* sources, size_t count) {
  for (size_t i = 0; i + 1 < count; ++i)
    if (sources[i].bytes % kBlock != 0) return false;
  return true;
}

// For runs that cut blocks: copy, then hash the copy while it is in the cache.
uint64_t copy_then_hash(char* to, const CopySource* sources, size_t count, size_t bytes) {
  size_t done = 0;
  for (size_t i = 0; i < count; done += sources[i].bytes, ++i)
    std::memcpy(to + done, sources[i].from, sources[i].bytes);
  return hash_bytes(to, bytes, 0);
}

uint64_t copy_leaf(void* to_start, const CopySource* sources, size_t count, size_t bytes) {
  char* const to = static_cast<char*>(to_start);
  if (bytes <= kBlock || !whole_blocks(sources, count))
    return copy_then_hash(to, sources, count, bytes);
  const bool aligned = reinterpret_cast<uintptr_t>(to) % Lanes::kBytes == 0;
  const size_t body = (bytes - 1) / kBlock * kBlock;
  Sums sums = first_sums();
  size_t done = 0;
  const char* rest = nullptr;
  for (size_t i = 0; i < count; ++i) {
    const size_t part = sources[i].bytes < body - done ? sources[i].bytes : body - done;
    const char* const from = static_cast<const char*>(sources[i].from);
    if (aligned)
      copy_blocks<true>(sums, to + done, from, part);
    else
      copy_blocks<false>(sums, to + done, from, part);
    done += part;
    rest = from + part;
  }
  // From here on the copy is hashed, not the source, which may be changing.
  std::memcpy(to + body, rest, bytes - body);
  for (size_t at = body; at + kStripe < bytes; at += kStripe)
    add_stripe(sums, to + at, XXH3_kSecret + (at - body) / 8);
  add_stripe(sums, to + bytes - kStripe, XXH3_kSecret + kLastStripeKey);
  return merge(sums, bytes);
}

void copy_past_cache(void* to_start, const void* from_start, size_t bytes) {
  char* to = static_cast<char*>(to_start);
  const char* from = static_cast<const char*>(from_start);
  size_t head = (kStripe - reinterpret_cast<uintptr_t>(to) % kStripe) % kStripe;
  if (head > bytes) head = bytes;
  std::memcpy(to, from, head);
  const size_t end = head + (bytes - head) / kStripe * kStripe;
  for (size_t at = head; at < end; at += kStripe) {
    __builtin_prefetch(from + at + kReadAhead);
    for (size_t i = 0; i < kStripe; i += Lanes::kBytes)
      Lanes::stream(to + at + i, Lanes::load(from + at + i));
  }
  std::memcpy(to + end, from + end, bytes - end);
}

}  // namespace
}  // namespace kvsidecar
