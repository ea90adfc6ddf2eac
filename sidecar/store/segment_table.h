// SPDX-License-Identifier: Apache-2.0
// What the conductor knows of the store's segments: their pages, sizes and recent use. Pure; one
// owner. CLOCK over segments: when used bytes exceed the capacity, the hand passes segments that
// were touched since its last visit and picks the first that wasn't; its hot pages (host-resident
// and touched) are appended again first.
#pragma once
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "sidecar/index/index.h"
#include "sidecar/store/store.h"

namespace kvsidecar {

class SegmentTable {
 public:
  explicit SegmentTable(uint64_t capacity_bytes);
  // Dense number of a segment, made on first sight.
  uint32_t number(uint64_t segment);
  uint64_t segment(uint32_t number) const;
  // A page was written or found at a location; `bytes` is the space it takes.
  void add(StoreLocation location, EntryId entry, uint64_t bytes);
  // What the whole segment takes, when more is known than the sum over its pages.
  void set_bytes(uint32_t number, uint64_t bytes);
  void remove(uint32_t number, uint32_t slot);  // deleted, replaced or unreadable
  void touch(uint32_t number);
  // The segment being written is never the victim. Harmless on one that isn't known.
  void set_open(uint64_t segment, bool open);
  bool over_capacity() const;
  // Picks a victim (kNowhere = none); its entries are then to be moved or dropped, and the segment
  // unlinked.
  uint32_t victim();
  // A segment that lost its last page, isn't open and that `keep` doesn't want; kNowhere = none.
  uint32_t dead(const std::function<bool(uint64_t segment)>& keep);
  const std::vector<EntryId>& entries(uint32_t number) const;  // by store slot; kNoEntry = gone
  void erase(uint32_t number);                                 // after kUnlink was submitted
  // Dense numbers are below this; one may be between two segments.
  uint32_t numbers() const { return static_cast<uint32_t>(segments_.size()); }
  bool in_use(uint32_t number) const { return segments_[number].id != 0; }
  uint64_t used_bytes() const { return used_bytes_; }
  size_t segments() const { return numbers_.size(); }

 private:
  struct Segment {
    uint64_t id = 0, bytes = 0;
    uint32_t live = 0;
    bool touched = false, open = false, gone = false;
    std::vector<EntryId> entries;
  };
  uint64_t capacity_bytes_, used_bytes_ = 0;
  std::vector<Segment> segments_;
  std::vector<uint32_t> free_numbers_;
  std::vector<uint32_t> emptied_;  // had no page left at some time
  std::unordered_map<uint64_t, uint32_t> numbers_;
  size_t hand_ = 0;
};

}  // namespace kvsidecar
