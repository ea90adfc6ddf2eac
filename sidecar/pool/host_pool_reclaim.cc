// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "sidecar/pool/host_pool_state.h"

namespace kvsidecar {
namespace {

// Per reclaim(), so that a rebalancing between shapes is spread over many: some 20 us each.
constexpr uint32_t kDrainSlots = 128;
constexpr uint32_t kReclaimsPerSearch = 4;
constexpr uint32_t kVictimTries = 8;

}  // namespace

bool HostPool::reclaim(const SlotShape& shape, const std::function<bool(SlotId)>& may_evict,
                       const std::function<void(SlotId)>& evict) {
  State& s = *state_;
  const uint32_t index = s.shape_index(shape);
  State::Shape& own = *s.shapes[index];
  if (s.drain.spans != 0) {
    if (s.step_drain(kDrainSlots, may_evict, evict) == State::DrainStep::kDone) return true;
  } else if (own.runs != 0 && ++own.reclaims % kReclaimsPerSearch == 0) {
    s.search_colder(index);
  }
  return s.evict_own(own, may_evict, evict) || s.drain_any(index, may_evict, evict);
}

bool HostPool::State::evict_own(Shape& shape, const MayEvictSlot& may_evict,
                                const EvictSlot& evict) {
  const auto slot_of = [&](uint32_t number) {
    const Run& run = *spans[shape.block_heads[number / shape.block_slots]].run;
    return id(run, number - run.eviction_begin);
  };
  // One victim() offers a bounded number of pages and goes on with others the next time.
  for (uint32_t tries = 0; tries < kVictimTries && shape.eviction.resident() > 0; ++tries) {
    const uint32_t number =
        shape.eviction.victim([&](uint32_t n) { return may_evict(slot_of(n)); });
    if (number == Eviction::kNoSlot) continue;
    const SlotId slot = slot_of(number);
    evict(slot);
    const uint32_t head = spans[slot / slots_per_span].head;
    KV_CHECK(head == kNone || slot_ref(slot).run.slots[slot_ref(slot).slot].use == Use::kFree);
    return true;
  }
  return false;
}

void HostPool::State::search_colder(uint32_t shape) {
  Shape& own = *shapes[shape];
  const std::vector<SpanMap::Chunk>& chunks = map.chunks();
  const uint32_t shortest = acceptable_run(own.shape, span_bytes, map.longest_chunk());
  const uint32_t longest = preferred_run(own.shape, span_bytes, map.longest_chunk());
  if (shortest == 0) return;
  if (own.search_spans < shortest || own.search_spans > longest) own.search_spans = longest;
  if (own.search_chunk < chunks.size()) {
    std::vector<Window> windows;
    windows_of(chunks[own.search_chunk++], shape, own.search_spans, windows);
    for (const Window& window : windows)
      if (own.search_best.spans == 0 || window.age > own.search_best.age) own.search_best = window;
  }
  if (own.search_chunk < chunks.size()) return;
  const Window best = own.search_best;
  own.search_chunk = 0;
  own.search_best = {};
  // Where spans of this shape are everywhere in between, the next round looks for less room.
  own.search_spans = best.spans == 0 ? own.search_spans - 1 : longest;
  // A mean against an extreme: shapes whose ages are within a factor of about two leave each other
  // alone.
  if (best.spans != 0 && best.age > static_cast<double>(own.eviction.coldness(request_now)))
    begin_drain(best, shape);
}

bool HostPool::State::drain_any(uint32_t shape, const MayEvictSlot& may_evict,
                                const EvictSlot& evict) {
  if (drain.spans != 0 && step_drain(UINT32_MAX, may_evict, evict) == DrainStep::kDone) return true;
  const SlotShape& slot = shapes[shape]->shape;
  const uint32_t shortest = shortest_run(slot, span_bytes, map.longest_chunk());
  if (shortest == 0) return false;
  // The caller waits for all of it: not the run that wastes least, but a short one that will do.
  for (uint32_t wanted = acceptable_run(slot, span_bytes, map.longest_chunk()); wanted >= shortest;
       --wanted) {
    std::vector<Window> windows;
    for (const SpanMap::Chunk& chunk : map.chunks()) windows_of(chunk, shape, wanted, windows);
    std::sort(windows.begin(), windows.end(),
              [](const Window& a, const Window& b) { return a.age > b.age; });
    for (const Window& window : windows) {
      begin_drain(window, shape);
      if (step_drain(UINT32_MAX, may_evict, evict) == DrainStep::kDone) return true;
    }
  }
  return false;
}

void HostPool::State::windows_of(const SpanMap::Chunk& chunk, uint32_t shape, uint32_t wanted,
                                 std::vector<Window>& out) const {
  struct Sum {  // over the spans before
    double age = 0;
    uint32_t taken = 0, blocked = 0;
  };
  std::vector<Sum> sums(chunk.spans + 1);
  for (uint32_t i = 0; i < chunk.spans; ++i) {
    const uint32_t span = chunk.first + i;
    sums[i + 1] = sums[i];
    if (!may_be_drained(span, shape)) {
      ++sums[i + 1].blocked;
    } else if (spans[span].head != kNone) {
      sums[i + 1].age += age_of(*spans[spans[span].head].run);
      ++sums[i + 1].taken;
    }
  }
  for (uint32_t begin = 0; begin + wanted <= chunk.spans; ++begin) {
    if (!begins_run(chunk.first + begin)) continue;
    uint32_t end = begin + wanted;
    while (end < chunk.spans && !begins_run(chunk.first + end)) ++end;
    const uint32_t taken = sums[end].taken - sums[begin].taken;
    if (taken == 0 || sums[end].blocked != sums[begin].blocked) continue;
    out.push_back({chunk.first + begin, end - begin, (sums[end].age - sums[begin].age) / taken});
  }
}

bool HostPool::State::may_be_drained(uint32_t span, uint32_t shape) const {
  if (spans[span].head == kNone) return map.is_empty(span);
  const Run& run = *spans[spans[span].head].run;
  return run.shape != shape && run.full + run.free == run.layout.slots;
}

bool HostPool::State::begins_run(uint32_t span) const {
  return spans[span].head == kNone || spans[span].head == span;
}

double HostPool::State::age_of(const Run& run) const {
  if (run.full == 0) return static_cast<double>(request_now);
  return static_cast<double>(request_now) -
         static_cast<double>(run.request_sum) / static_cast<double>(run.full);
}

}  // namespace kvsidecar
