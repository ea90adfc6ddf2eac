// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "sidecar/pool/host_pool_state.h"
#include "sidecar/pool/poison.h"

namespace kvsidecar {
namespace {

// An Eviction costs a few hundred KiB whatever it holds; shapes that own no run give theirs up.
constexpr size_t kIdleShapesMax = 64;

}  // namespace

uint32_t HostPool::State::add_spans(std::span<std::byte> memory, uint64_t chunk_nonce) {
  KV_CHECK(memory.size() % span_bytes == 0 && !memory.empty());
  KV_CHECK(reinterpret_cast<uintptr_t>(memory.data()) % kSlotAlignBytes == 0);
  const uint32_t first = map.spans();
  const uint64_t count = memory.size() / span_bytes;
  KV_CHECK((first + count) * slots_per_span < kNoSlot);
  map.add_chunk(static_cast<uint32_t>(count));
  for (uint64_t i = 0; i < count; ++i) {
    spans.emplace_back();
    spans.back().memory = memory.data() + i * span_bytes;
    spans.back().nonce = chunk_nonce;
  }
  usage.bytes += memory.size();
  usage.spans += count;
  return first;
}

SpanPlace HostPool::State::place(uint32_t span) const {
  return {span_bytes, span - map.chunk_of(span).first, spans[span].nonce};
}

void HostPool::State::make_empty(uint32_t first, uint32_t count) {
  poison(spans[first].memory, span_bytes * count);
  map.give(first, count);
}

HostPool::State::Shape* HostPool::State::find_shape(const SlotShape& shape) {
  for (const auto& known : shapes)
    if (known->shape == shape) return known.get();
  return nullptr;
}

uint32_t HostPool::State::shape_index(const SlotShape& shape) {
  uint32_t idle = kNone;
  for (uint32_t i = 0; i < shapes.size(); ++i) {
    if (shapes[i]->shape == shape) return i;
    if (shapes[i]->runs == 0) idle = i;
  }
  KV_CHECK(is_sane(shape));
  const uint64_t block = (span_bytes + shape.slot_bytes - 1) / shape.slot_bytes;
  auto made = std::make_unique<Shape>(shape, static_cast<uint32_t>(block));
  if (idle != kNone && shapes.size() >= kIdleShapesMax) {
    shapes[idle] = std::move(made);
    return idle;
  }
  shapes.push_back(std::move(made));
  return static_cast<uint32_t>(shapes.size() - 1);
}

HostPool::State::Run* HostPool::State::take_run(uint32_t shape) {
  const SlotShape& slot = shapes[shape]->shape;
  const uint32_t least = shortest_run(slot, span_bytes, map.longest_chunk());
  if (least == 0 || map.empty() < least) return nullptr;
  const SpanMap::Run taken = map.take(preferred_run(slot, span_bytes, map.longest_chunk()), least);
  if (taken.spans == 0) return nullptr;

  const RunLayout layout = layout_run(slot, span_bytes, taken.spans);
  std::byte* const memory = spans[taken.first].memory;
  const bool entries_are_free = taken.spans == 1 && spans[taken.first].clean == slot;
  for (uint32_t span = taken.first; span < taken.first + taken.spans; ++span)
    spans[span].clean = {};
  unpoison(memory, layout.slots_begin);
  // Were the run's header damaged, an inner span that no page reaches yet would look empty.
  for (uint32_t span = taken.first + 1; span < taken.first + taken.spans; ++span) {
    unpoison(spans[span].memory, 8);
    table.spoil_header(spans[span].memory);
    poison(spans[span].memory, 8);
  }
  table.format(memory, place(taken.first), slot, layout, entries_are_free);
  Run& run = make_run(taken.first, shape, layout);
  link(run);
  return &run;
}

HostPool::State::Run& HostPool::State::make_run(uint32_t head, uint32_t shape,
                                                const RunLayout& layout) {
  Shape& s = *shapes[shape];
  auto run = std::make_unique<Run>();
  run->head = head;
  run->shape = shape;
  run->layout = layout;
  run->free = layout.slots;
  run->slots.resize(layout.slots);

  std::vector<uint32_t>& reusable = s.free_blocks[layout.spans];
  uint32_t block = static_cast<uint32_t>(s.block_heads.size());
  if (reusable.empty()) {
    s.block_heads.resize(block + layout.spans);
  } else {
    block = reusable.back();
    reusable.pop_back();
  }
  std::fill_n(s.block_heads.begin() + block, layout.spans, head);
  run->eviction_begin = block * s.block_slots;
  s.eviction.resize(static_cast<uint32_t>(s.block_heads.size()) * s.block_slots);

  ++s.runs;
  usage.table_bytes += layout.unused_bytes;
  usage.slots_free += layout.slots;
  usage.stranded_bytes += layout.slots * s.shape.slot_bytes;
  for (uint32_t span = head; span < head + layout.spans; ++span) spans[span].head = head;
  spans[head].run = std::move(run);
  return *spans[head].run;
}

void HostPool::State::dissolve(Run& run) {
  Shape& s = *shapes[run.shape];
  const RunLayout layout = run.layout;
  const uint32_t head = run.head;
  const bool draining = run.draining;
  if (!draining) unlink(run);
  // Bytes of pages lie where the inner spans' headers will be: these go first, for a successor
  // reads them as headers as soon as the run's own header is gone.
  for (uint32_t span = head + layout.spans; --span > head;) {
    unpoison(spans[span].memory, kSpanHeaderBytes);
    clear_header(span);
  }
  clear_header(head);
  if (layout.spans == 1) spans[head].clean = s.shape;

  s.free_blocks[layout.spans].push_back(run.eviction_begin / s.block_slots);
  --s.runs;
  usage.table_bytes -= layout.unused_bytes;
  usage.slots_free -= layout.slots;
  usage.stranded_bytes -= layout.slots * s.shape.slot_bytes;
  for (uint32_t span = head; span < head + layout.spans; ++span) spans[span].head = kNone;
  spans[head].run.reset();
  if (!draining) return make_empty(head, layout.spans);
  for (uint32_t span = head; span < head + layout.spans; ++span) reserve_span(span);
}

void HostPool::State::link(Run& run) {
  Shape& s = *shapes[run.shape];
  run.previous = kNone;
  run.next = s.with_free;
  if (run.next != kNone) spans[run.next].run->previous = run.head;
  s.with_free = run.head;
}

void HostPool::State::unlink(Run& run) {
  if (run.previous != kNone)
    spans[run.previous].run->next = run.next;
  else
    shapes[run.shape]->with_free = run.next;
  if (run.next != kNone) spans[run.next].run->previous = run.previous;
}

}  // namespace kvsidecar
