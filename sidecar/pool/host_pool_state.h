// SPDX-License-Identifier: Apache-2.0
// The host pool's private state, shared by host_pool.cc (slots), host_pool_runs.cc (runs and
// shapes), host_pool_adopt.cc, host_pool_reclaim.cc and host_pool_drain.cc. One owner.
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "sidecar/pool/host_pool.h"
#include "sidecar/pool/span_map.h"
#include "sidecar/pool/span_table.h"

namespace kvsidecar {

struct HostPool::State {
  static constexpr uint32_t kNone = 0xffffffffu;

  enum class Use : uint8_t { kFree, kFilling, kFull, kQuarantined, kAdopted };
  struct Slot {
    uint64_t request : 48 = 0;  // the last that used it, while FULL
    uint64_t padding : 12 = 0;  // slot bytes beyond page bytes, while FULL
    Use use : 4 = Use::kFree;   // kAdopted: FILLING by a predecessor
    SlotNote note;
  };
  static_assert(sizeof(Slot) == 16);

  // Adjacent spans with one table.
  struct Run {
    uint32_t head = 0;   // number of its first span
    uint32_t shape = 0;  // index in `shapes`
    RunLayout layout;
    uint32_t eviction_begin = 0;  // its slots' numbers in the shape's Eviction
    uint32_t free = 0, full = 0, free_hint = 0;  // no slot before the hint is free
    uint64_t request_sum = 0;  // of FULL slots
    std::vector<Slot> slots;
    bool draining = false;                    // takes no new pages, and is in no list
    uint32_t previous = kNone, next = kNone;  // heads in the shape's list of runs with a free slot
  };

  // Adjacent spans of other shapes that a shape could have.
  struct Window {
    uint32_t first = 0, spans = 0;
    double age = 0;  // mean over its spans of their pages' mean age, in requests
  };

  struct Shape {
    explicit Shape(const SlotShape& s, uint32_t block)
        : shape(s), block_slots(block), eviction(1) {}
    SlotShape shape;
    uint32_t block_slots;  // Eviction numbers per span of a run
    std::vector<uint32_t> block_heads;  // block of Eviction numbers -> head of its run
    std::map<uint32_t, std::vector<uint32_t>> free_blocks;  // by spans of the run: first block
    uint32_t runs = 0;
    uint32_t with_free = kNone;
    uint32_t reclaims = 0;
    uint32_t search_spans = 0;  // length of the windows that are looked for
    size_t search_chunk = 0;    // where the search for a colder window goes on
    Window search_best;         // of the chunks passed on this round
    Eviction eviction;
  };

  struct Span {
    std::byte* memory = nullptr;
    uint64_t nonce = 0;     // of its chunk
    uint32_t head = kNone;  // of the run it is in
    std::unique_ptr<Run> run;  // only at the head
    bool reserved = false;     // emptied by the drain, not yet in the common list
    SlotShape clean;           // its table has only FREE entries of this shape; {} = unknown
  };

  // What a slot number means.
  struct SlotRef {
    Run& run;
    Shape& shape;
    uint32_t slot;
  };

  State(uint64_t epoch_number, uint64_t bytes, uint64_t nonce_of_new_chunks);

  // host_pool_runs.cc
  uint32_t add_spans(std::span<std::byte> memory, uint64_t chunk_nonce);  // not empty yet
  SpanPlace place(uint32_t span) const;
  void clear_header(uint32_t span) { table.clear_header(spans[span].memory, place(span)); }
  void make_empty(uint32_t first, uint32_t count);  // headers cleared already
  Shape* find_shape(const SlotShape& shape);
  uint32_t shape_index(const SlotShape& shape);  // made on first sight
  Run* take_run(uint32_t shape);
  Run& make_run(uint32_t head, uint32_t shape, const RunLayout& layout);
  void dissolve(Run& run);  // nothing used in it
  void link(Run& run);
  void unlink(Run& run);

  // host_pool.cc
  SlotRef slot_ref(SlotId slot);
  SlotId id(const Run& run, uint32_t slot) const { return run.head * slots_per_span + slot; }
  std::byte* slot_memory(const SlotRef& p);
  void set_use(const SlotRef& p, Use use);
  void free_slot(const SlotRef& p);  // any use -> FREE
  void used(const SlotRef& p, const PageAccess& access);
  uint32_t eviction_number(const SlotRef& p) const { return p.run.eviction_begin + p.slot; }

  // host_pool_adopt.cc
  struct Found {
    SlotId slot;
    PageRecord record;
  };
  void adopt_run(uint32_t head, const SpanTable& table, Bytes memory, std::vector<Found>& found);

  // host_pool_reclaim.cc
  using MayEvictSlot = std::function<bool(SlotId)>;
  using EvictSlot = std::function<void(SlotId)>;
  bool evict_own(Shape& shape, const MayEvictSlot& may_evict, const EvictSlot& evict);
  void search_colder(uint32_t shape);  // one step; begins a drain at the end of a round
  bool drain_any(uint32_t shape, const MayEvictSlot& may_evict, const EvictSlot& evict);
  // Appends every window of at least `wanted` spans that is made of whole runs.
  void windows_of(const SpanMap::Chunk& chunk, uint32_t shape, uint32_t wanted,
                  std::vector<Window>& out) const;
  bool may_be_drained(uint32_t span, uint32_t shape) const;
  bool begins_run(uint32_t span) const;
  double age_of(const Run& run) const;

  // host_pool_drain.cc: empties a window, a few slots a step: first asks whether every page in it
  // may go, then evicts them.
  struct Drain {
    uint32_t first = 0, spans = 0;  // spans 0: none under way
    uint32_t shape = kNone;         // that wants it
    bool evicting = false;
    uint32_t span = 0, slot = 0;  // where the next step goes on
  };
  enum class DrainStep { kGoing, kDone, kStuck };
  void begin_drain(const Window& window, uint32_t shape);
  DrainStep step_drain(uint32_t slots_max, const MayEvictSlot& may_evict, const EvictSlot& evict);
  bool begin_evicting();
  DrainStep end_drain();  // kDone: the whole window is in the common list
  void reserve_span(uint32_t span);

  const uint64_t span_bytes;
  const uint64_t nonce;           // of chunks that are added; unknown to whoever puts pages
  const uint32_t slots_per_span;  // at most; SlotId = span * slots_per_span + slot
  TableWriter table;
  SpanMap map;
  std::vector<Span> spans;
  std::vector<std::unique_ptr<Shape>> shapes;
  std::vector<uint32_t> adopted_filling, unreadable_spans;  // slots, spans
  Drain drain;
  Usage usage;
  uint64_t request_now = 0;  // highest seen
};

}  // namespace kvsidecar
