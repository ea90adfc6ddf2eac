// SPDX-License-Identifier: Apache-2.0
//
// Use counts of pages that were evicted, keyed by a 32-bit tag of the page. A bounded set of hints:
// sets of sixteen, each first in, first out; two pages may share an entry. Grows set by set (linear
// hashing), so that growing costs in proportion to what is added and forgets nothing. Owned by
// Eviction, same thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace kvsidecar {

class Ghosts {
 public:
  static constexpr uint32_t kPerSlot = 4;    // entries of 4 bytes for each slot of the pool
  static constexpr uint32_t kSetsMin = 512;  // the bits of a tag that an entry doesn't hold

  explicit Ghosts(uint32_t slots_max);
  void resize(uint32_t slots_max);  // grows, never shrinks

  // Remembers an evicted page.
  void add(uint32_t tag, uint8_t uses);
  // The page was wanted while it was away: counts one use, once until it is taken. Returns the uses
  // it now has; 0 when it isn't known.
  uint8_t miss(uint32_t tag);
  // The page comes back: forgets the entry and returns its uses, this one included; 0 when unknown.
  uint8_t take(uint32_t tag);

  size_t memory_bytes() const { return blocks_.size() * kSetsPerBlock * sizeof(Set); }

 private:
  static constexpr uint32_t kWays = 16, kSetsPerBlock = 256;
  struct Entry {
    uint32_t tag : 23;  // low bits; the high ones choose the set
    uint32_t missed : 1;
    uint32_t uses : 8;
  };
  static_assert(sizeof(Entry) == 4);
  static constexpr uint32_t kTagMask = (1u << 23) - 1;
  using Set = std::array<Entry, kWays>;

  Set& set_at(uint32_t number) { return blocks_[number / kSetsPerBlock][number % kSetsPerBlock]; }
  Set& set_of(uint32_t tag);
  Entry* find(uint32_t tag);
  void split();

  uint32_t sets_ = kSetsMin;
  uint32_t level_sets_ = kSetsMin;  // a power of two; sets_ < 2 * level_sets_
  std::vector<std::unique_ptr<Set[]>> blocks_;
};

}  // namespace kvsidecar
