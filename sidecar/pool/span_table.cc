// SPDX-License-Identifier: Apache-2.0
#include "sidecar/pool/span_table.h"

#include <array>
#include <atomic>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace kvsidecar {
namespace {

constexpr uint64_t kMagic = 0x314e415053564b21u;  // "!KVSPAN1"
constexpr uint64_t kLabelMagic = 0x314c424c4e4b4856u;
constexpr size_t kLabelAt = 128, kLabelWords = 3;
constexpr uint32_t kVersion = 2;
constexpr size_t kHeaderWords = 8;
constexpr uint64_t kStateMask = (uint64_t{1} << 56) - 1;
constexpr uint64_t kFree = 0, kFilling = 0xf1, kFull = 0xf7;  // top bytes

using HeaderWords = std::array<uint64_t, kHeaderWords>;

uint64_t header_check(const HeaderWords& words, uint64_t nonce) {
  return XXH3_64bits_withSeed(words.data(), (kHeaderWords - 1) * 8, nonce);
}

// Even, so that it isn't the magic.
uint64_t empty_word(const SpanPlace& place) {
  const uint64_t number = place.span_in_chunk;
  return XXH3_64bits_withSeed(&number, sizeof number, place.nonce) & ~uint64_t{1};
}

HeaderWords header_words(const SpanTable& table, const SpanPlace& place) {
  HeaderWords words{kMagic,
                    kVersion | uint64_t{table.shape.entry_bytes} << 32,
                    table.shape.slot_bytes,
                    table.layout.spans | uint64_t{table.layout.slots} << 32,
                    place.span_bytes,
                    place.span_in_chunk,
                    table.epoch,
                    0};
  words.back() = header_check(words, place.nonce);
  return words;
}

uint64_t load(const std::byte* at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

uint64_t full_word(uint64_t record_check, uint32_t slot) {
  const uint64_t bound = record_check ^ ((uint64_t{slot} + 1) * 0x9e3779b97f4a7c15u);
  return kFull << 56 | (bound & kStateMask);
}

Status corrupt(const char* what) { return {Code::kCorrupt, std::string("slot table: ") + what}; }

}  // namespace

std::optional<uint64_t> decode_label(Bytes memory) {
  if (memory.size() < kSpanHeaderBytes) return std::nullopt;
  std::array<uint64_t, kLabelWords> words;
  std::memcpy(words.data(), memory.data() + kLabelAt, sizeof words);
  if (words[0] != kLabelMagic || words[2] != XXH3_64bits(words.data(), 16)) return std::nullopt;
  return words[1];
}

Result<std::optional<SpanTable>> decode_span_table(Bytes memory, const SpanPlace& place) {
  const uint64_t span_bytes = place.span_bytes;
  if (span_bytes < kSpanHeaderBytes || memory.size() < span_bytes) return corrupt("no whole span");
  HeaderWords words;
  std::memcpy(words.data(), memory.data(), sizeof words);
  if (words[0] == empty_word(place)) return std::optional<SpanTable>{};
  if (words[0] != kMagic) return corrupt("no magic number");
  if (words.back() != header_check(words, place.nonce)) return corrupt("check");

  SpanTable table;
  table.shape = {words[2], static_cast<uint32_t>(words[1] >> 32)};
  table.epoch = words[6];
  const uint32_t version = static_cast<uint32_t>(words[1]);
  const uint32_t spans = static_cast<uint32_t>(words[3]);
  if (version != kVersion) return corrupt("of another version");
  if (words[4] != span_bytes) return corrupt("of another span size");
  if (words[5] != place.span_in_chunk) return corrupt("of another span");
  if (!is_sane(table.shape)) return corrupt("of no slot shape");
  if (spans == 0 || spans > memory.size() / span_bytes) return corrupt("longer than its chunk");
  table.layout = layout_run(table.shape, span_bytes, spans);
  if (table.layout.slots == 0 || table.layout.slots != words[3] >> 32)
    return corrupt("number of slots");
  return std::optional<SpanTable>{table};
}

SlotEntry decode_entry(Bytes memory, const SpanTable& table, uint32_t slot) {
  KV_CHECK(slot < table.layout.slots && memory.size() >= table.layout.slots_begin);
  // A private copy: a predecessor that isn't dead yet may still write the original.
  std::array<std::byte, kEntryBytesMax> copy;
  const Bytes entry(copy.data(), table.shape.entry_bytes);
  const std::byte* const from = memory.data() + entry_offset(table.shape, slot);
  const uint64_t word = load(from);
  SlotEntry decoded;
  if (word == 0) decoded.state = SlotState::kFree;
  if (word >> 56 == kFilling) {
    decoded.state = SlotState::kFilling;
    decoded.epoch = word & kStateMask;
  }
  if (word >> 56 != kFull) return decoded;

  std::memcpy(copy.data(), from, table.shape.entry_bytes);
  auto record = decode_record(entry.subspan(kEntryHeadBytes));
  if (!record) return decoded;
  const uint64_t check = load(copy.data() + kEntryHeadBytes + record_bytes(*record) - 8);
  if (word != full_word(check, slot)) return decoded;
  if (slot_shape(record->page_bytes, 1, 0).slot_bytes != table.shape.slot_bytes) return decoded;
  decoded.state = SlotState::kFull;
  decoded.record = record.take();
  return decoded;
}

void TableWriter::store(std::byte* at, uint64_t word) {
  std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(at))
      .store(word, std::memory_order_relaxed);
  if (observer_) observer_();
}

void TableWriter::publish(std::byte* at, uint64_t word) {
  std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(at))
      .store(word, std::memory_order_release);
  // A kill falls between two instructions: it is enough to keep the compiler from moving later
  // stores before this one.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (observer_) observer_();
}

void TableWriter::label(std::byte* chunk, uint64_t nonce) {
  const uint64_t words[2] = {kLabelMagic, nonce};
  std::byte* const at = chunk + kLabelAt;
  store(at + 8, nonce);
  store(at + 16, XXH3_64bits(words, sizeof words));
  publish(at, kLabelMagic);
}

void TableWriter::format(std::byte* run, const SpanPlace& place, const SlotShape& shape,
                         const RunLayout& layout, bool entries_are_free) {
  const HeaderWords words = header_words({shape, layout, epoch_}, place);
  for (size_t i = 1; i < kHeaderWords; ++i) store(run + i * 8, words[i]);
  if (!entries_are_free)
    for (uint32_t slot = 0; slot < layout.slots; ++slot)
      store(run + entry_offset(shape, slot), kFree);
  publish(run, words[0]);
}

void TableWriter::clear_header(std::byte* span, const SpanPlace& place) {
  publish(span, empty_word(place));
}

void TableWriter::spoil_header(std::byte* span) { publish(span, 0); }

void TableWriter::set_filling(std::byte* run, const SlotShape& shape, uint32_t slot) {
  publish(run + entry_offset(shape, slot), kFilling << 56 | (epoch_ & kStateMask));
}

void TableWriter::set_free(std::byte* run, const SlotShape& shape, uint32_t slot) {
  publish(run + entry_offset(shape, slot), kFree);
}

void TableWriter::set_full(std::byte* run, const SlotShape& shape, uint32_t slot,
                           const PageRecord& record) {
  const size_t bytes = record_bytes(record);
  KV_CHECK(kEntryHeadBytes + bytes <= shape.entry_bytes);
  buffer_.resize(bytes);
  encode_record(record, buffer_);
  std::byte* const entry = run + entry_offset(shape, slot);
  for (size_t i = 0; i < bytes; i += 8) store(entry + kEntryHeadBytes + i, load(&buffer_[i]));
  publish(entry, full_word(load(&buffer_[bytes - 8]), slot));
}

}  // namespace kvsidecar
