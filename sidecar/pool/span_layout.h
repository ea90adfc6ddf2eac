// SPDX-License-Identifier: Apache-2.0
// How slots of one shape lie in a run of adjacent spans: [header][one entry per slot][slots, 4 KiB
// aligned][tail]. Every page size below a span's wastes less in a longer run (8 MiB pages: half of
// one span, a sixteenth of eight), so most shapes take a run of several. Pure; any thread.
#pragma once
#include <cstdint>
#include <string>

namespace kvsidecar {

inline constexpr uint64_t kSlotAlignBytes = 4096;
inline constexpr uint64_t kSpanHeaderBytes = 256;
inline constexpr uint32_t kEntryBytesMin = 256;
inline constexpr uint32_t kEntryBytesMax = 32768;
inline constexpr uint32_t kRunSpansMax = 8;  // of a page that fits fewer spans

struct SlotShape {
  uint64_t slot_bytes = 0;   // page bytes rounded up to 4 KiB
  uint32_t entry_bytes = 0;  // 256, 512, … 32768: holds head and PageRecord
  bool operator==(const SlotShape&) const = default;
};
// The shape for pages of a namespace: parts, longest key, description reserve.
SlotShape slot_shape(uint64_t page_bytes, size_t parts, size_t description_bytes_max);
// Sizes that slot_shape() can have made.
bool is_sane(const SlotShape& shape);

struct RunLayout {
  uint32_t spans = 0;
  uint32_t slots = 0;         // 0: not even one slot fits
  uint64_t slots_begin = 0;   // offset of slot 0 in the run
  uint64_t unused_bytes = 0;  // header, entries and tail
};
RunLayout layout_run(const SlotShape& shape, uint64_t span_bytes, uint32_t spans);
// The shortest run with at least one slot; 0 when none of up to spans_max has one.
uint32_t shortest_run(const SlotShape& shape, uint64_t span_bytes, uint32_t spans_max);
// The shortest run that wastes at most a sixteenth, else the one of up to kRunSpansMax spans (or
// the shortest, if that is longer) that wastes least. 0 as above.
uint32_t preferred_run(const SlotShape& shape, uint64_t span_bytes, uint32_t spans_max);
// The shortest run that wastes at most a quarter, else the preferred one. 0 as above.
uint32_t acceptable_run(const SlotShape& shape, uint64_t span_bytes, uint32_t spans_max);

}  // namespace kvsidecar
