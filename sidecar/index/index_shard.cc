// SPDX-License-Identifier: Apache-2.0
#include "sidecar/index/index_shard.h"

#include <algorithm>
#include <cstring>

#include "ipc/result.h"

namespace kvsidecar {
namespace {

// At most 17/20 full, and growth by a fifth: between 9.4 and 11.3 bytes of buckets a page.
constexpr uint64_t kFullNumerator = 17, kFullDenominator = 20;

}  // namespace

void IndexShard::insert(uint32_t tag, EntryId entry) {
  if (size_ >= homes_ * kFullNumerator / kFullDenominator)
    rehash(std::max(kHomesMin, homes_ + homes_ / 5), std::max(kOverflowMin, overflow_));
  const uint64_t bucket = uint64_t{tag} << 32 | entry;
  // Tags crowd at the end: more homes wouldn't spread equal ones, more overflow takes them.
  while (!try_place(bucket)) rehash(homes_, overflow_ * 2);
  ++size_;
}

bool IndexShard::try_place(uint64_t bucket) {
  uint32_t at = home(tag_of(bucket));
  while (buckets_[at] != kGap && buckets_[at] < bucket) ++at;
  uint32_t gap = at;
  while (buckets_[gap] != kGap) ++gap;
  if (gap == homes_ + overflow_) return false;
  std::memmove(&buckets_[at + 1], &buckets_[at], (gap - at) * sizeof(uint64_t));
  buckets_[at] = bucket;
  return true;
}

void IndexShard::erase(uint32_t tag, EntryId entry) {
  uint32_t at = home(tag);
  while (buckets_[at] != (uint64_t{tag} << 32 | entry)) {
    KV_CHECK(buckets_[at] != kGap);
    ++at;
  }
  uint32_t end = at + 1;
  while (buckets_[end] != kGap && home(tag_of(buckets_[end])) < end) ++end;
  std::memmove(&buckets_[at], &buckets_[at + 1], (end - at - 1) * sizeof(uint64_t));
  buckets_[end - 1] = kGap;
  --size_;
}

void IndexShard::reserve(uint64_t pages) {
  const uint64_t homes = pages * kFullDenominator / kFullNumerator + 1;
  KV_CHECK(homes < UINT32_MAX / 2);
  if (homes > homes_) rehash(static_cast<uint32_t>(homes), std::max(kOverflowMin, overflow_));
}

void IndexShard::rehash(uint32_t homes, uint32_t overflow) {
  const std::unique_ptr<uint64_t[]> old = std::move(buckets_);
  const uint32_t old_all = buckets_all();
  homes_ = homes;
  for (bool fits = false; !fits; overflow *= 2) {
    overflow_ = overflow;
    buckets_ = std::make_unique_for_overwrite<uint64_t[]>(buckets_all());
    std::fill_n(buckets_.get(), buckets_all(), kGap);
    const uint32_t end = homes_ + overflow_;
    uint32_t next_free = 0;
    fits = true;
    for (uint32_t from = 0; from < old_all && fits; ++from) {
      if (old[from] == kGap) continue;
      const uint32_t at = std::max(next_free, home(tag_of(old[from])));
      fits = at < end;
      if (fits) buckets_[at] = old[from];
      next_free = at + 1;
    }
  }
}

}  // namespace kvsidecar
