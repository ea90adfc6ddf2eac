// SPDX-License-Identifier: Apache-2.0
#include "sidecar/pool/host_pool_state.h"
#include "sidecar/pool/poison.h"

namespace kvsidecar {

void HostPool::State::begin_drain(const Window& window, uint32_t shape) {
  KV_CHECK(drain.spans == 0);
  drain = {.first = window.first, .spans = window.spans, .shape = shape, .span = window.first};
}

HostPool::State::DrainStep HostPool::State::step_drain(uint32_t slots_max,
                                                       const MayEvictSlot& may_evict,
                                                       const EvictSlot& evict) {
  while (slots_max > 0) {
    if (drain.span >= drain.first + drain.spans) {
      if (drain.evicting || !begin_evicting()) return end_drain();
      continue;
    }
    Run* const run = spans[drain.span].run.get();
    if (run == nullptr || drain.slot >= run->layout.slots) {
      ++drain.span;
      drain.slot = 0;
      continue;
    }
    --slots_max;
    const uint32_t slot = drain.slot++;
    const Use use = run->slots[slot].use;
    if (use == Use::kFree) continue;
    if (use != Use::kFull || !may_evict(id(*run, slot))) return end_drain();
    if (drain.evicting) evict(id(*run, slot));
  }
  return DrainStep::kGoing;
}

// False when the window isn't any more what it was when the drain began.
bool HostPool::State::begin_evicting() {
  const uint32_t end = drain.first + drain.spans;
  if (!begins_run(drain.first)) return false;
  if (end < map.spans() && spans[end].head != kNone && spans[end].head < end) return false;
  for (uint32_t span = drain.first; span < end; ++span)
    if (!may_be_drained(span, drain.shape)) return false;

  for (uint32_t span = drain.first; span < end; ++span) {
    if (spans[span].head == kNone) {
      map.take_span(span);
      reserve_span(span);
    } else if (Run* const run = spans[span].run.get()) {
      if (run->free > 0) unlink(*run);
      run->draining = true;
    }
  }
  drain.evicting = true;
  drain.span = drain.first;
  drain.slot = 0;
  return true;
}

HostPool::State::DrainStep HostPool::State::end_drain() {
  uint32_t emptied = 0;
  for (uint32_t span = drain.first; span < drain.first + drain.spans; ++span) {
    if (Run* const run = spans[span].run.get(); run != nullptr && run->draining) {
      run->draining = false;
      if (run->free > 0) link(*run);
    }
    if (!spans[span].reserved) continue;
    spans[span].reserved = false;
    usage.stranded_bytes -= span_bytes;
    map.give(span, 1);
    ++emptied;
  }
  const bool done = emptied == drain.spans;
  drain = {};
  return done ? DrainStep::kDone : DrainStep::kStuck;
}

void HostPool::State::reserve_span(uint32_t span) {
  spans[span].reserved = true;
  usage.stranded_bytes += span_bytes;
  poison(spans[span].memory, span_bytes);
}

}  // namespace kvsidecar
