// SPDX-License-Identifier: Apache-2.0
#include "sidecar/pool/span_layout.h"

#include <algorithm>
#include <bit>

#include "ipc/layout.h"
#include "sidecar/page_record.h"
#include "sidecar/pool/span_table.h"

namespace kvsidecar {
namespace {

constexpr uint64_t round_up(uint64_t bytes, uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

SlotShape slot_shape(uint64_t page_bytes, size_t parts, size_t description_bytes_max) {
  const size_t entry = kEntryHeadBytes + record_bytes(parts, kKeyBytesMax, description_bytes_max);
  return {round_up(page_bytes, kSlotAlignBytes),
          static_cast<uint32_t>(std::bit_ceil(std::max<size_t>(entry, kEntryBytesMin)))};
}

bool is_sane(const SlotShape& shape) {
  return shape.slot_bytes >= kSlotAlignBytes && shape.slot_bytes % kSlotAlignBytes == 0 &&
         shape.slot_bytes <= kPageBytesMax && std::has_single_bit(shape.entry_bytes) &&
         shape.entry_bytes >= kEntryBytesMin && shape.entry_bytes <= kEntryBytesMax;
}

RunLayout layout_run(const SlotShape& shape, uint64_t span_bytes, uint32_t spans) {
  const uint64_t run_bytes = span_bytes * spans;
  const auto slots_begin = [&](uint64_t slots) {
    return round_up(kSpanHeaderBytes + slots * shape.entry_bytes, kSlotAlignBytes);
  };
  uint64_t slots = (run_bytes - kSpanHeaderBytes) / (shape.slot_bytes + shape.entry_bytes);
  while (slots > 0 && slots_begin(slots) + slots * shape.slot_bytes > run_bytes) --slots;
  return {spans, static_cast<uint32_t>(slots), slots_begin(slots),
          run_bytes - slots * shape.slot_bytes};
}

uint32_t shortest_run(const SlotShape& shape, uint64_t span_bytes, uint32_t spans_max) {
  const uint64_t one_slot_bytes =
      round_up(kSpanHeaderBytes + shape.entry_bytes, kSlotAlignBytes) + shape.slot_bytes;
  const uint64_t spans = (one_slot_bytes + span_bytes - 1) / span_bytes;
  return spans <= spans_max ? static_cast<uint32_t>(spans) : 0;
}

uint32_t preferred_run(const SlotShape& shape, uint64_t span_bytes, uint32_t spans_max) {
  const uint32_t shortest = shortest_run(shape, span_bytes, spans_max);
  if (shortest == 0) return 0;
  const uint32_t longest = std::min(spans_max, std::max(shortest, kRunSpansMax));
  uint32_t best = shortest;
  uint64_t best_unused = UINT64_MAX;  // per span, in bytes
  for (uint32_t spans = shortest; spans <= longest; ++spans) {
    const uint64_t unused = layout_run(shape, span_bytes, spans).unused_bytes / spans;
    if (unused <= span_bytes / 16) return spans;
    if (unused < best_unused) {
      best_unused = unused;
      best = spans;
    }
  }
  return best;
}

uint32_t acceptable_run(const SlotShape& shape, uint64_t span_bytes, uint32_t spans_max) {
  const uint32_t preferred = preferred_run(shape, span_bytes, spans_max);
  uint32_t spans = shortest_run(shape, span_bytes, spans_max);
  while (spans < preferred &&
         layout_run(shape, span_bytes, spans).unused_bytes > spans * span_bytes / 4)
    ++spans;
  return spans;
}

}  // namespace kvsidecar
