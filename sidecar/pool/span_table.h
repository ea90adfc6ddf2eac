// SPDX-License-Identifier: Apache-2.0
// The slot table at the head of a run of spans: what a successor reads after a kill at any
// instruction. Little-endian; 8-byte words.
//
//   header, 256 bytes: magic, version | entry bytes << 32, slot bytes, run spans | slots << 32,
//     span bytes, number of the span in its chunk, epoch that formatted it, check = XXH3-64 of the
//     seven words before, seeded with the chunk's nonce. The magic is written last; in its place a
//     word made of nonce and number = an empty span. So no page's bytes pass for a header where a
//     run's own was damaged: who puts pages doesn't know the nonce.
//   label of a chunk, in its first span's header: magic, nonce, check of both.
//   entry: state word, PageRecord. The state word's top byte is the state, the rest:
//     FREE 0; FILLING the epoch; FULL derived from the record's check and the slot's number, so
//     that it vouches for this record in this slot only.
//
// Order of stores: header words, all entries FREE, magic. A slot: FILLING before anything targets
// its bytes; record, then FULL; FREE or FILLING before reuse. Decoding is pure and holds for
// hostile bytes: it never reads outside them and what it returns never overlaps. Writing: the owner
// only.
#pragma once
#include <functional>
#include <optional>

#include "ipc/requests.h"
#include "ipc/result.h"
#include "sidecar/page_record.h"
#include "sidecar/pool/span_layout.h"

namespace kvsidecar {

inline constexpr size_t kEntryHeadBytes = 8;

enum class SlotState : uint8_t { kFree = 0, kFilling = 1, kFull = 2, kTorn = 3 };

struct SpanTable {
  SlotShape shape;
  RunLayout layout;
  uint64_t epoch = 0;
};
struct SpanPlace {
  uint64_t span_bytes = 0;
  uint32_t span_in_chunk = 0;
  uint64_t nonce = 0;  // of the chunk
};
// The nonce of the chunk that begins at `memory`; nullopt when its label doesn't hold together.
std::optional<uint64_t> decode_label(Bytes memory);
// Of the span that begins at `memory`, which ends with the chunk. nullopt: an empty span. kCorrupt:
// something else lies there.
Result<std::optional<SpanTable>> decode_span_table(Bytes memory, const SpanPlace& place);

struct SlotEntry {
  SlotState state = SlotState::kTorn;  // kTorn: neither of the three; leave its bytes alone
  uint64_t epoch = 0;                  // of FILLING, low 56 bits
  std::optional<PageRecord> record;    // of FULL
};
// `memory` as above, slot < table.layout.slots.
SlotEntry decode_entry(Bytes memory, const SpanTable& table, uint32_t slot);

// Sees each 8-byte store to a table, after it: for tests that stop the world between any two.
using StoreObserver = std::function<void()>;

class TableWriter {
 public:
  explicit TableWriter(uint64_t epoch) : epoch_(epoch) {}
  void observe(StoreObserver observer) { observer_ = std::move(observer); }

  void label(std::byte* chunk, uint64_t nonce);
  // `run` is the first byte of the run's first span.
  void format(std::byte* run, const SpanPlace& place, const SlotShape& shape,
              const RunLayout& layout, bool entries_are_free);
  void clear_header(std::byte* span, const SpanPlace& place);
  void spoil_header(std::byte* span);  // neither a table nor empty: it is inside a run
  void set_filling(std::byte* run, const SlotShape& shape, uint32_t slot);
  void set_free(std::byte* run, const SlotShape& shape, uint32_t slot);
  // The record must fit; its encoding passes through a buffer of this object.
  void set_full(std::byte* run, const SlotShape& shape, uint32_t slot, const PageRecord& record);

 private:
  void store(std::byte* at, uint64_t word);    // ordered only by the next publish
  void publish(std::byte* at, uint64_t word);  // after every earlier store, before every later one

  uint64_t epoch_;
  StoreObserver observer_;
  std::vector<std::byte> buffer_;
};

inline uint64_t entry_offset(const SlotShape& shape, uint32_t slot) {
  return kSpanHeaderBytes + uint64_t{slot} * shape.entry_bytes;
}
inline uint64_t slot_offset(const SlotShape& shape, const RunLayout& layout, uint32_t slot) {
  return layout.slots_begin + slot * shape.slot_bytes;
}

}  // namespace kvsidecar
