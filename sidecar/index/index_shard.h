// SPDX-License-Identifier: Apache-2.0
// One shard of the index: a gapped array of (tag, entry) buckets, sorted by tag. A tag's home is
// its share of the array, so order by tag is order by home: a search starts at the home and ends at
// the first gap or greater tag, a rehash streams from one array into the next, and neither needs
// the entries. Insertion pushes its neighbours right to the next gap, erasure pulls them back: no
// tombstones. Pure; one owner.
#pragma once
#include <cstdint>
#include <memory>

#include "sidecar/index/index.h"

namespace kvsidecar {

class IndexShard {
 public:
  uint32_t home(uint32_t tag) const {
    return static_cast<uint32_t>((uint64_t{tag} * homes_) >> 32);
  }
  void prefetch(uint32_t at) const { __builtin_prefetch(buckets_.get() + at); }
  // The entry of the first bucket with this tag at or after `at`, which moves there; kNoEntry when
  // there is none. `at` starts at home(tag).
  EntryId next(uint32_t& at, uint32_t tag) const {
    if (homes_ == 0) return kNoEntry;
    while (buckets_[at] != kGap && tag_of(buckets_[at]) < tag) ++at;
    return tag_of(buckets_[at]) == tag ? entry_of(buckets_[at]) : kNoEntry;
  }

  void insert(uint32_t tag, EntryId entry);
  void erase(uint32_t tag, EntryId entry);  // must be there
  void reserve(uint64_t pages);
  uint64_t memory_bytes() const { return uint64_t{buckets_all()} * sizeof(uint64_t); }

 private:
  // A gap's entry is kNoEntry, so next() needs no test of its own for a tag of all ones.
  static constexpr uint64_t kGap = ~uint64_t{0};
  static constexpr uint32_t kHomesMin = 32;
  static constexpr uint32_t kOverflowMin = 16;

  static uint32_t tag_of(uint64_t bucket) { return static_cast<uint32_t>(bucket >> 32); }
  static EntryId entry_of(uint64_t bucket) { return static_cast<EntryId>(bucket); }
  // One more than homes and overflow: the last bucket is always a gap and ends every search.
  uint32_t buckets_all() const { return homes_ == 0 ? 0 : homes_ + overflow_ + 1; }
  bool try_place(uint64_t bucket);
  void rehash(uint32_t homes, uint32_t overflow);

  std::unique_ptr<uint64_t[]> buckets_;
  uint32_t homes_ = 0;
  uint32_t overflow_ = 0;  // buckets past the last home
  uint32_t size_ = 0;
};

}  // namespace kvsidecar
