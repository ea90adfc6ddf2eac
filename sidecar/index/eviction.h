// SPDX-License-Identifier: Apache-2.0
//
// Which page leaves the host pool when a slot is needed. One instance per slot size; the pool's
// owner (the conductor thread) is the only caller. No threads, clocks, files; time is the number of
// the request, so that ages of different slot sizes compare. Deterministic: equal calls, equal
// victims.
//
// The policy, in three parts:
//  - *Leaves first.* A page is only worth something while all its ancestors are resident, so only
//    pages without resident children are offered. Parents are learned from the order of accesses.
//  - *Learned worth.* A page's class says how often it was used and whether it was the last page of
//    its prompt. For each class and age, ReuseModel (eviction_model.h) keeps the best rate of hits
//    per slot and request that waiting can still bring. The lowest rate goes first. So it keeps
//    pages until the next turn of a conversation is due even where LRU would cycle, and drops those
//    whose turn is overdue even where S3-FIFO would keep them. Untaught, it is LRU. The youngest
//    1/32 of the pages isn't judged yet, so what was just put is still there to be written or asked
//    for again.
//  - *Ghosts.* The use counts of evicted pages are remembered (eviction_ghosts.h), so that a
//    conversation that comes back isn't taken for a new one.
// Measured with tests/bench/hit_rate on an hour of real conversations (hits in %, pools of 2,000 to
// 40,000 pages): LRU 5.4 11.0 21.1 28.8 35.1, S3-FIFO 7.7 14.0 19.9 25.0 31.9, this 10.8 17.2 22.8
// 30.3 35.2. What helped: use count, last page of a prompt (its last block is rarely full when it
// is written), leaves first, exact ranking (sampled victims cost a point). What didn't, and isn't
// here: prompt length, depth, gaps between turns, the worth of the turns after the next.
//
// Cost: O(1) a call; victim() asks about at most kOffersMax slots. Memory: 28 bytes a slot, at most
// 16 more for ghosts, and a fixed 250 KiB.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sidecar/index/block_array.h"
#include "sidecar/index/eviction_access.h"
#include "sidecar/index/eviction_ghosts.h"
#include "sidecar/index/eviction_model.h"

namespace kvsidecar {

class Eviction {
 public:
  static constexpr uint32_t kNoSlot = UINT32_MAX;
  // Slots that one victim() may offer to its caller: the best ones, then a sweep.
  static constexpr uint32_t kOffersMax = 1024 + 64;

  explicit Eviction(uint32_t slots_max);

  // Grows (never shrinks) the number of slots, at a cost in proportion to what is added.
  void resize(uint32_t slots_max);

  // A page came into this slot, which must be free here. If `missed` was called for the page, both
  // are one use.
  void inserted(uint32_t slot, const PageAccess& access);
  // A resident page was looked up. The slot must be taken.
  void touched(uint32_t slot, const PageAccess& access);
  void prefetch(uint32_t slot) const { __builtin_prefetch(&slots_[slot], 1); }
  // The slot was freed for another reason than victim(): delete, clear, lost. Free slots are
  // ignored.
  void erased(uint32_t slot);
  // A page was looked up and isn't resident.
  void missed(const PageAccess& access);

  // The resident slot worth least among those that may_evict allows; it is free here afterwards.
  // kNoSlot: none is resident, or none of the slots offered was allowed; sweeps go on where the
  // last one ended, so repeated calls reach every slot.
  uint32_t victim(MayEvict may_evict);

  // Age of the page that victim() would offer first, in requests before `request_now`; 0 when
  // nothing is resident. Comparable across instances that are fed from one request counter.
  uint64_t coldness(uint64_t request_now) const;

  uint32_t resident() const { return resident_; }
  // Bytes held, all parts together.
  size_t memory_bytes() const;

 private:
  static constexpr uint32_t kCells = ReuseModel::kClasses * ReuseModel::kBuckets;
  static constexpr uint32_t kRankWords = (kCells + 63) / 64;
  static constexpr uint32_t kOpenRequests = 256;
  static constexpr uint8_t kFree = UINT8_MAX;  // page_class of a free slot
  static constexpr uint16_t kNoCell = UINT16_MAX;

  // Only leaves (pages without resident children) lie in a cell.
  struct Slot {
    uint32_t parent =
        kNoSlot;  // slot of the page before it in a prompt; valid while the tag agrees
    uint16_t parent_tag = 0;
    uint16_t children = 0;
    uint32_t cell_older = kNoSlot;
    uint32_t cell_younger = kNoSlot;
    uint32_t request = 0;  // low bits of the request that used the page last
    uint32_t tag = 0;
    uint16_t cell = kNoCell;
    uint8_t uses = 0;
    uint8_t page_class = kFree;
  };
  static_assert(sizeof(Slot) == 28);

  struct Cell {  // leaves of one class and age bucket, oldest first
    uint32_t oldest = kNoSlot;
    uint32_t youngest = kNoSlot;
    uint32_t age_end = 0;  // first age that doesn't belong here
  };
  // A slot and the page that was in it when the link was made.
  struct Link {
    uint32_t slot = kNoSlot;
    uint32_t tag = 0;
  };
  struct Open {  // a request whose pages still arrive, and the last one of them
    uint64_t request = 0;
    uint32_t position = 0;
    Link page;  // no slot: it was missed
  };
  struct Pending {  // a page that was missed behind a resident one
    uint32_t tag = 0;
    Link parent;
  };

  void advance(uint64_t request);
  uint32_t age_of(const Slot& s) const { return static_cast<uint32_t>(now_) - s.request; }
  Link parent_in_request(const PageAccess& access) const;
  void adopt(uint32_t slot, const Link& parent);
  void leave_parent(uint32_t slot);
  void used(uint32_t slot, const PageAccess& access, ReuseModel::Kind kind);
  void into_cell(uint32_t slot, bool as_youngest);
  void out_of_cell(uint32_t slot);
  void age_cells();
  void rank_cells();
  uint32_t first_rank(uint32_t from) const;
  void evict(uint32_t slot);

  BlockArray<Slot> slots_;
  uint32_t resident_ = 0;
  uint64_t now_ = 0;
  uint64_t ranked_at_ = 0;       // now_ at the last rank_cells()
  uint64_t inserted_since_ = 0;  // pages, since then
  Cell cells_[kCells];
  uint16_t rank_of_[kCells];         // 0: worth least
  uint16_t cell_at_[kCells];         // inverse of rank_of_
  uint64_t ranks_[kRankWords] = {};  // bit r: the cell of rank r isn't empty
  Open open_[kOpenRequests];
  Pending pending_[kOpenRequests];
  uint32_t sweep_hand_ = 0;
  Ghosts ghosts_;
  ReuseModel model_;
};

}  // namespace kvsidecar
