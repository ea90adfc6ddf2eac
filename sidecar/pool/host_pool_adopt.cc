// SPDX-License-Identifier: Apache-2.0
#include "sidecar/planted.h"
#include "sidecar/pool/host_pool_state.h"
#include "sidecar/pool/poison.h"

namespace kvsidecar {

void HostPool::adopt_chunk(std::span<std::byte> memory, const Adopted& full) {
  State& s = *state_;
  // Without its label nothing in the chunk can be told from a page's bytes.
  const std::optional<uint64_t> nonce = decode_label(memory);
  const uint32_t first = s.add_spans(memory, nonce.value_or(s.nonce));
  if (!nonce.has_value()) s.table.label(memory.data(), s.nonce);
  std::vector<State::Found> found;
  for (uint32_t span = first; span < s.map.spans();) {
    const Bytes rest = memory.subspan((span - first) * s.span_bytes);
    auto table = decode_span_table(rest, s.place(span));
    if (!nonce.has_value()) table = Status{Code::kCorrupt, "chunk without a label"};
    if (table.ok() && table->has_value()) {
      s.adopt_run(span, **table, rest, found);
      span += (*table)->layout.spans;
      continue;
    }
    if (table.ok()) {
      s.make_empty(span, 1);
    } else {
      // Nobody knows which of its bytes the predecessor's I/O may still reach.
      s.unreadable_spans.push_back(span);
      s.usage.stranded_bytes += s.span_bytes;
    }
    ++span;
  }
  // Last, and from a list of our own: the callback may release slots.
  for (State::Found& page : found) full(page.slot, std::move(page.record));
}

void HostPool::State::adopt_run(uint32_t head, const SpanTable& found_table, Bytes memory,
                                std::vector<Found>& found) {
  Run& run = make_run(head, shape_index(found_table.shape), found_table.layout);
  Shape& shape = *shapes[run.shape];
  for (uint32_t slot = 0; slot < run.layout.slots; ++slot) {
    const SlotRef p{run, shape, slot};
    SlotEntry entry = decode_entry(memory, found_table, slot);
    switch (entry.state) {
      case SlotState::kFree:
        poison(slot_memory(p), shape.shape.slot_bytes);
        break;
      case SlotState::kFilling:
      case SlotState::kTorn:
        if (planted(Bug::kAdoptedSlotAtOnce)) break;
        set_use(p, Use::kAdopted);
        adopted_filling.push_back(id(run, slot));
        break;
      case SlotState::kFull: {
        const PageAccess access{.page = entry.record->hash.low, .request = request_now};
        run.slots[slot].padding = (shape.shape.slot_bytes - entry.record->page_bytes) & 0xfff;
        set_use(p, Use::kFull);
        used(p, access);
        shape.eviction.inserted(eviction_number(p), access);
        found.push_back({id(run, slot), std::move(*entry.record)});
        break;
      }
    }
  }
  if (run.free > 0) link(run);
  if (run.free == run.layout.slots) dissolve(run);
}

void HostPool::release_quarantine() {
  State& s = *state_;
  for (const SlotId slot : s.adopted_filling) {
    const State::SlotRef p = s.slot_ref(slot);
    KV_CHECK(p.run.slots[p.slot].use == State::Use::kAdopted);
    s.free_slot(p);
  }
  s.adopted_filling.clear();
  for (const uint32_t span : s.unreadable_spans) {
    s.clear_header(span);
    s.usage.stranded_bytes -= s.span_bytes;
    s.make_empty(span, 1);
  }
  s.unreadable_spans.clear();
}

}  // namespace kvsidecar
