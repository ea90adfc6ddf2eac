// SPDX-License-Identifier: Apache-2.0
// One shard of the index: lines of twelve entry ids with a tag each, one line of the processor's
// cache. A page's place, 32 bits of its hash, says in which line it belongs; when that is full it
// lies in the next one that isn't, and the lines it passed count it, so that a search ends at the
// first line which nothing has passed. 6.1 to 7.6 bytes a page. Pure; one owner.
#pragma once
#include <bit>
#include <cstdint>
#include <memory>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "ipc/result.h"
#include "sidecar/index/index.h"

namespace kvsidecar {

// A page's hash, mixed, and what its bits say.
struct IndexSpot {
  uint64_t mixed = 0;
  uint32_t place() const { return static_cast<uint32_t>(mixed >> 32); }
  uint8_t tag() const { return static_cast<uint8_t>(mixed >> 24); }
  uint32_t shard_bits() const { return mixed & 0xffffff; }
};

struct alignas(64) IndexLine {
  static constexpr uint32_t kIds = 12;
  uint8_t tags[kIds] = {};
  uint32_t used : 8 = 0;     // the first ones
  uint32_t passed : 24 = 0;  // ids that belong here or before and lie behind
  EntryId ids[kIds] = {};

  // Bit i: id i has this tag.
  uint32_t with(uint8_t tag) const {
    const uint32_t taken = (1u << used) - 1;
#if defined(__SSE2__)
    const __m128i all = _mm_load_si128(reinterpret_cast<const __m128i*>(this));
    const __m128i same = _mm_cmpeq_epi8(all, _mm_set1_epi8(static_cast<char>(tag)));
    return static_cast<uint32_t>(_mm_movemask_epi8(same)) & taken;
#else
    uint32_t same = 0;
    for (uint32_t i = 0; i < kIds; ++i) same |= uint32_t{tags[i] == tag} << i;
    return same & taken;
#endif
  }
};
static_assert(sizeof(IndexLine) == 64);

class IndexShard {
 public:
  uint32_t home(uint32_t place) const {
    return static_cast<uint32_t>((uint64_t{place} * lines_all_) >> 32);
  }
  void prefetch(uint32_t place) const { __builtin_prefetch(lines_.get() + home(place)); }
  // Calls look(id) for each id that may be at this spot, until that returns true; which one that
  // was, kNoEntry = none.
  template <typename Look>
  EntryId find(const IndexSpot& spot, Look&& look) const {
    if (lines_all_ == 0) return kNoEntry;
    uint32_t at = home(spot.place());
    for (uint32_t i = 0; i < lines_all_; ++i, at = next(at)) {
      const IndexLine& line = lines_[at];
      for (uint32_t same = line.with(spot.tag()); same != 0; same &= same - 1) {
        const EntryId id = line.ids[std::countr_zero(same)];
        if (look(id)) return id;
      }
      if (line.passed == 0) break;
    }
    return kNoEntry;
  }
  // The line in which that search begins; null while there is none.
  const IndexLine* first_line(const IndexSpot& spot) const {
    return lines_all_ == 0 ? nullptr : &lines_[home(spot.place())];
  }

  // True when it has to grow before the next insert().
  bool full() const { return 2 * uint64_t{size_} >= uint64_t{lines_all_} * kFullTwice; }
  // `spot_of(id)` tells where a page belongs, `coming(id)` is called somewhat before that. Costs in
  // proportion to the pages in the shard.
  template <typename SpotOf, typename Coming>
  void grow(uint32_t lines, SpotOf&& spot_of, Coming&& coming);
  uint32_t lines_after_growth() const { return lines_all_ + lines_all_ / 4 + 1; }
  static uint32_t lines_for(uint64_t pages) {
    return static_cast<uint32_t>(2 * pages / kFullTwice + 1);
  }
  uint32_t lines() const { return lines_all_; }

  void insert(const IndexSpot& spot, EntryId id);  // not when full()
  void erase(const IndexSpot& spot, EntryId id);   // must be there
  uint64_t memory_bytes() const { return uint64_t{lines_all_} * sizeof(IndexLine); }

 private:
  static constexpr uint32_t kFullTwice = 21;  // ten and a half ids a line, in the mean
  static constexpr uint32_t kAhead = 2;       // lines

  uint32_t next(uint32_t line) const { return line + 1 < lines_all_ ? line + 1 : 0; }

  std::unique_ptr<IndexLine[]> lines_;
  uint32_t lines_all_ = 0;
  uint32_t size_ = 0;
};

template <typename SpotOf, typename Coming>
void IndexShard::grow(uint32_t lines, SpotOf&& spot_of, Coming&& coming) {
  const std::unique_ptr<IndexLine[]> old = std::move(lines_);
  const uint32_t old_lines = lines_all_;
  KV_CHECK(lines > old_lines);
  lines_ = std::make_unique<IndexLine[]>(lines);
  lines_all_ = lines;
  size_ = 0;
  const auto announce = [&](uint32_t line) {
    for (uint32_t i = 0; line < old_lines && i < old[line].used; ++i) coming(old[line].ids[i]);
  };
  for (uint32_t line = 0; line < kAhead; ++line) announce(line);
  for (uint32_t line = 0; line < old_lines; ++line) {
    announce(line + kAhead);
    for (uint32_t i = 0; i < old[line].used; ++i)
      insert(spot_of(old[line].ids[i]), old[line].ids[i]);
  }
}

}  // namespace kvsidecar
