// SPDX-License-Identifier: Apache-2.0
// The host pool: chunks of spans of slots. Pure: it works on memory that it is given and knows no
// files, threads or clocks. One owner (the conductor); workers only touch slot bytes.
//
// A span (16 MiB; smaller in tests) serves one shape. At its head lies its slot table: a span
// header with its own check, then one entry of `entry_bytes` per slot. An entry is FREE,
// FILLING(epoch) (written before any copy or I/O targets the slot) or FULL (a PageRecord, written
// after the last byte, cleared before reuse); each state is published by one 8-byte release store,
// written last, so that a kill at any instruction leaves one of the three. Where a single span
// would hold few slots or none, a shape takes runs of adjacent spans with one table. Empty spans
// return to the common list.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "sidecar/index/eviction.h"
#include "sidecar/page_record.h"
#include "sidecar/pool/span_layout.h"

namespace kvsidecar {

using SlotId = uint32_t;  // stable while the slot isn't free
inline constexpr SlotId kNoSlot = 0xffffffffu;
inline constexpr uint64_t kSpanBytes = 16ull << 20;

// What the pool's owner keeps beside a slot. It lies with the slot's run: slot numbers are sparse.
struct SlotNote {
  uint32_t entry = 0xffffffffu;  // of the index
  uint32_t account = 0;          // that the slot is charged to
};

class HostPool {
 public:
  // `secret`: a random number that nobody who puts pages can know (see span_table.h).
  HostPool(uint64_t epoch, uint64_t span_bytes = kSpanBytes, uint64_t secret = 0);
  ~HostPool();

  // Adds a chunk (a multiple of span_bytes, 4 KiB aligned; stays mapped as long as the pool lives).
  void add_chunk(std::span<std::byte> memory);
  // Adds a chunk that a predecessor filled. FULL slots are reported whole and stay FULL,
  // unverified; FILLING ones are quarantined; anything that doesn't hold together is formatted
  // afresh. Cost: the tables, not the pages.
  using Adopted = std::function<void(SlotId, PageRecord&&)>;
  void adopt_chunk(std::span<std::byte> memory, const Adopted& full);
  void release_quarantine();  // the predecessor and its I/O are gone for certain

  // FREE -> FILLING; kNoSlot when this shape has no free slot and there is no empty span: then
  // reclaim().
  SlotId allocate(const SlotShape& shape);
  // FILLING -> FULL. False when the record doesn't fit the entry.
  bool publish(SlotId slot, const PageRecord& record, const PageAccess& access);
  // FILLING or FULL -> FREE.
  void release(SlotId slot);
  // A buffer that an operation still owns though its page is gone: the slot stays FILLING, counted,
  // until release().
  void quarantine(SlotId slot);

  // Frees a slot of the shape, or a whole span of the coldest other shape, by calling evict(slot)
  // for each victim (which must release() it). False when everything is held. Chooses only slots
  // with may_evict(slot).
  bool reclaim(const SlotShape& shape, const std::function<bool(SlotId)>& may_evict,
               const std::function<void(SlotId)>& evict);
  void touch(SlotId slot, const PageAccess& access);
  void prefetch(SlotId slot) const;  // the lines that touch() needs; of a slot that isn't free
  void missed(const SlotShape& shape, const PageAccess& access);

  // Fresh at allocate() and adoption, and while the slot is free.
  const SlotNote& note(SlotId slot) const;
  void set_note(SlotId slot, const SlotNote& note);  // of a slot that isn't free
  // The first slot at or after `from`, whatever its state; kNoSlot = none.
  SlotId next_slot(SlotId from) const;
  SlotId slots_end() const;  // above every slot of the chunks so far

  std::byte* bytes(SlotId slot) const;
  uint64_t slot_bytes(SlotId slot) const;
  uint64_t taken_bytes(SlotId slot) const;  // with its share of its run's tables and tail
  // The largest slot that a chunk of that size has room for; 0 = the largest chunk there is.
  uint64_t slot_bytes_max(uint32_t entry_bytes, uint64_t chunk_bytes) const;
  Result<PageRecord> record(SlotId slot) const;  // of a FULL slot, decoded from the table
  Bytes key(
      SlotId slot) const;  // of a FULL slot, in place: cheap; empty when it does not hold together

  struct Usage {
    uint64_t bytes = 0, spans = 0, spans_empty = 0;
    uint64_t slots_full = 0, slots_filling = 0, slots_quarantined = 0, slots_free = 0;
    uint64_t page_bytes = 0;      // of FULL slots
    uint64_t table_bytes = 0;     // slot tables, and the tail of spans that no slot fits
    uint64_t rounding_bytes = 0;  // slot bytes beyond page bytes in FULL slots
    uint64_t stranded_bytes = 0;  // free slots in spans that aren't empty, and spans without a
                                  // readable table until release_quarantine()
  };
  Usage usage() const;  // O(1)

  // For tests: called after each 8-byte store to a slot table, in the order of the stores.
  void observe_stores(std::function<void()> observer);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvsidecar
