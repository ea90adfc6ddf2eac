// SPDX-License-Identifier: Apache-2.0
#include "sidecar/pool/host_pool.h"

#include <algorithm>
#include <bit>

#include "sidecar/pool/host_pool_state.h"
#include "sidecar/pool/poison.h"

namespace kvsidecar {

HostPool::State::State(uint64_t epoch_number, uint64_t bytes, uint64_t nonce_of_new_chunks)
    : span_bytes(bytes),
      nonce(nonce_of_new_chunks),
      slots_per_span(static_cast<uint32_t>(bytes / kSlotAlignBytes)),
      table(epoch_number) {
  KV_CHECK(bytes >= 2 * kSlotAlignBytes && bytes % kSlotAlignBytes == 0);
}

HostPool::State::SlotRef HostPool::State::slot_ref(SlotId slot) {
  const uint32_t span = slot / slots_per_span;
  KV_CHECK(span < spans.size() && spans[span].head != kNone);
  Run& run = *spans[spans[span].head].run;
  const uint32_t in_run = slot - run.head * slots_per_span;
  KV_CHECK(in_run < run.layout.slots);
  return {run, *shapes[run.shape], in_run};
}

std::byte* HostPool::State::slot_memory(const SlotRef& p) {
  return spans[p.run.head].memory + slot_offset(p.shape.shape, p.run.layout, p.slot);
}

void HostPool::State::set_use(const SlotRef& p, Use use) {
  Slot& slot = p.run.slots[p.slot];
  const uint64_t slot_bytes = p.shape.shape.slot_bytes;
  const auto count = [&](Use of, uint64_t one) {  // one: +1 or, modulo 2^64, -1
    switch (of) {
      case Use::kFree:
        usage.slots_free += one;
        usage.stranded_bytes += one * slot_bytes;
        p.run.free += static_cast<uint32_t>(one);
        break;
      case Use::kFilling:
        usage.slots_filling += one;
        break;
      case Use::kFull:
        usage.slots_full += one;
        usage.page_bytes += one * (slot_bytes - slot.padding);
        usage.rounding_bytes += one * slot.padding;
        p.run.full += static_cast<uint32_t>(one);
        p.run.request_sum += one * slot.request;
        break;
      case Use::kQuarantined:
      case Use::kAdopted:
        usage.slots_quarantined += one;
        break;
    }
  };
  count(slot.use, ~uint64_t{0});
  slot.use = use;
  count(use, 1);
}

void HostPool::State::free_slot(const SlotRef& p) {
  Run& run = p.run;
  if (run.slots[p.slot].use == Use::kFull) p.shape.eviction.erased(eviction_number(p));
  table.set_free(spans[run.head].memory, p.shape.shape, p.slot);
  poison(slot_memory(p), p.shape.shape.slot_bytes);
  set_use(p, Use::kFree);
  run.slots[p.slot].note = {};
  run.free_hint = std::min(run.free_hint, p.slot);
  if (run.free == 1 && !run.draining) link(run);
  if (run.free == run.layout.slots) dissolve(run);
}

void HostPool::State::used(const SlotRef& p, const PageAccess& access) {
  Slot& slot = p.run.slots[p.slot];
  p.run.request_sum -= slot.request;
  slot.request = access.request & 0xffff'ffff'ffff;
  p.run.request_sum += slot.request;
  request_now = std::max(request_now, access.request);
}

HostPool::HostPool(uint64_t epoch, uint64_t span_bytes, uint64_t secret)
    : state_(std::make_unique<State>(epoch, span_bytes, secret)) {}

HostPool::~HostPool() {
  // The memory is its owner's again.
  for (const State::Span& span : state_->spans) unpoison(span.memory, state_->span_bytes);
}

void HostPool::add_chunk(std::span<std::byte> memory) {
  State& s = *state_;
  const uint32_t first = s.add_spans(memory, s.nonce);
  const uint32_t count = s.map.spans() - first;
  s.table.label(memory.data(), s.nonce);
  for (uint32_t span = first; span < first + count; ++span) s.clear_header(span);
  s.make_empty(first, count);
}

SlotId HostPool::allocate(const SlotShape& shape) {
  State& s = *state_;
  const uint32_t index = s.shape_index(shape);
  const uint32_t head = s.shapes[index]->with_free;
  State::Run* const run = head != State::kNone ? s.spans[head].run.get() : s.take_run(index);
  if (run == nullptr) return kNoSlot;

  uint32_t slot = run->free_hint;
  while (run->slots[slot].use != State::Use::kFree) ++slot;
  run->free_hint = slot + 1;
  const State::SlotRef p{*run, *s.shapes[index], slot};
  s.table.set_filling(s.spans[run->head].memory, shape, slot);
  unpoison(s.slot_memory(p), shape.slot_bytes);
  s.set_use(p, State::Use::kFilling);
  if (run->free == 0) s.unlink(*run);
  return s.id(*run, slot);
}

bool HostPool::publish(SlotId slot, const PageRecord& record, const PageAccess& access) {
  State& s = *state_;
  const State::SlotRef p = s.slot_ref(slot);
  State::Slot& info = p.run.slots[p.slot];
  KV_CHECK(info.use == State::Use::kFilling);
  const SlotShape& shape = p.shape.shape;
  if (kEntryHeadBytes + record_bytes(record) > shape.entry_bytes) return false;
  if (record.page_bytes == 0 || record.page_bytes > shape.slot_bytes ||
      shape.slot_bytes - record.page_bytes >= kSlotAlignBytes)
    return false;
  s.table.set_full(s.spans[p.run.head].memory, shape, p.slot, record);
  info.padding = (shape.slot_bytes - record.page_bytes) & 0xfff;
  info.request = 0;
  s.set_use(p, State::Use::kFull);
  s.used(p, access);
  p.shape.eviction.inserted(s.eviction_number(p), access);
  return true;
}

void HostPool::release(SlotId slot) {
  const State::SlotRef p = state_->slot_ref(slot);
  const State::Use use = p.run.slots[p.slot].use;
  KV_CHECK(use != State::Use::kFree && use != State::Use::kAdopted);
  state_->free_slot(p);
}

void HostPool::quarantine(SlotId slot) {
  const State::SlotRef p = state_->slot_ref(slot);
  const State::Use use = p.run.slots[p.slot].use;
  KV_CHECK(use == State::Use::kFilling || use == State::Use::kFull);
  if (use == State::Use::kFull) {
    p.shape.eviction.erased(state_->eviction_number(p));
    state_->table.set_filling(state_->spans[p.run.head].memory, p.shape.shape, p.slot);
  }
  state_->set_use(p, State::Use::kQuarantined);
}

void HostPool::touch(SlotId slot, const PageAccess& access) {
  const State::SlotRef p = state_->slot_ref(slot);
  if (p.run.slots[p.slot].use != State::Use::kFull) return;
  state_->used(p, access);
  p.shape.eviction.touched(state_->eviction_number(p), access);
}

void HostPool::prefetch(SlotId slot) const {
  const State::SlotRef p = state_->slot_ref(slot);
  __builtin_prefetch(&p.run.slots[p.slot], 1);
  p.shape.eviction.prefetch(state_->eviction_number(p));
}

void HostPool::missed(const SlotShape& shape, const PageAccess& access) {
  state_->request_now = std::max(state_->request_now, access.request);
  if (State::Shape* const known = state_->find_shape(shape)) known->eviction.missed(access);
}

const SlotNote& HostPool::note(SlotId slot) const {
  const State::SlotRef p = state_->slot_ref(slot);
  return p.run.slots[p.slot].note;
}

void HostPool::set_note(SlotId slot, const SlotNote& note) {
  const State::SlotRef p = state_->slot_ref(slot);
  KV_CHECK(p.run.slots[p.slot].use != State::Use::kFree);
  p.run.slots[p.slot].note = note;
}

SlotId HostPool::next_slot(SlotId from) const {
  const State& s = *state_;
  uint32_t span = from / s.slots_per_span;
  uint32_t slot = from % s.slots_per_span;  // in the run that begins at this span or before
  if (span < s.spans.size() && s.spans[span].head != State::kNone) {
    slot += (span - s.spans[span].head) * s.slots_per_span;
    span = s.spans[span].head;
  }
  for (; span < s.spans.size(); ++span, slot = 0) {
    const State::Run* const run = s.spans[span].run.get();
    if (run == nullptr) continue;
    if (slot < run->layout.slots) return s.id(*run, slot);
    span += run->layout.spans - 1;
  }
  return kNoSlot;
}

SlotId HostPool::slots_end() const { return state_->map.spans() * state_->slots_per_span; }

std::byte* HostPool::bytes(SlotId slot) const {
  return state_->slot_memory(state_->slot_ref(slot));
}

uint64_t HostPool::slot_bytes(SlotId slot) const {
  return state_->slot_ref(slot).shape.shape.slot_bytes;
}

uint64_t HostPool::taken_bytes(SlotId slot) const {
  const RunLayout& layout = state_->slot_ref(slot).run.layout;
  return layout.spans * state_->span_bytes / layout.slots;
}

uint64_t HostPool::slot_bytes_max(uint32_t entry_bytes, uint64_t chunk_bytes) const {
  const uint64_t spans =
      chunk_bytes != 0 ? chunk_bytes / state_->span_bytes : state_->map.longest_chunk();
  if (spans == 0) return UINT64_MAX;  // not known yet
  const uint64_t table_bytes = kSpanHeaderBytes + entry_bytes + kSlotAlignBytes - 1;
  return spans * state_->span_bytes - table_bytes / kSlotAlignBytes * kSlotAlignBytes;
}

Result<PageRecord> HostPool::record(SlotId slot) const {
  State& s = *state_;
  const State::SlotRef p = s.slot_ref(slot);
  KV_CHECK(p.run.slots[p.slot].use == State::Use::kFull);
  const SpanTable table{p.shape.shape, p.run.layout, 0};
  const Bytes memory(s.spans[p.run.head].memory, p.run.layout.slots_begin);
  SlotEntry entry = decode_entry(memory, table, p.slot);
  if (entry.state != SlotState::kFull)
    return Status{Code::kCorrupt, "slot table: the entry of a full slot has changed"};
  return std::move(*entry.record);
}

Bytes HostPool::key(SlotId slot) const {
  State& s = *state_;
  const State::SlotRef p = s.slot_ref(slot);
  KV_CHECK(p.run.slots[p.slot].use == State::Use::kFull);
  const Bytes entry(s.spans[p.run.head].memory + entry_offset(p.shape.shape, p.slot),
                    p.shape.shape.entry_bytes);
  return record_key(entry.subspan(kEntryHeadBytes));
}

HostPool::Usage HostPool::usage() const {
  Usage usage = state_->usage;
  usage.spans_empty = state_->map.empty();
  return usage;
}

void HostPool::observe_stores(std::function<void()> observer) {
  state_->table.observe(std::move(observer));
}

}  // namespace kvsidecar
