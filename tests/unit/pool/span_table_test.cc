// SPDX-License-Identifier: Apache-2.0
// Goal: the slot table's decoder takes exactly what the writer wrote in this place. Method: every
// damaged header byte, tables moved elsewhere, entries moved or torn, hostile but checked headers.
#include "sidecar/pool/span_table.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/unit/pool/pool_support.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace kvsidecar {
namespace {

constexpr SpanPlace kPlace{kTestSpanBytes, 3, 0x5eed};
const SlotShape kShape{4096, 256};

class SpanTableTest : public testing::Test {
 protected:
  SpanTableTest() : memory_(2 * kTestSpanBytes), layout_(layout_run(kShape, kTestSpanBytes, 1)) {
    writer_.format(at(), kPlace, kShape, layout_, false);
  }
  std::byte* at() { return memory_.span().data(); }
  auto decode() { return decode_span_table(memory_.span(), kPlace); }
  SlotEntry entry(uint32_t slot) { return decode_entry(memory_.span(), **decode(), slot); }
  // Writes header word i and makes the check right again.
  void forge(size_t i, uint64_t word) {
    std::memcpy(at() + i * 8, &word, 8);
    const uint64_t check = XXH3_64bits_withSeed(at(), 56, kPlace.nonce);
    std::memcpy(at() + 56, &check, 8);
  }

  TestMemory memory_;
  TableWriter writer_{9};
  RunLayout layout_;
};

TEST_F(SpanTableTest, AFormattedSpanHasOnlyFreeSlots) {
  const auto table = decode();
  ASSERT_TRUE(table.ok()) << table.status().text();
  ASSERT_TRUE(table->has_value());
  EXPECT_EQ((*table)->shape, kShape);
  EXPECT_EQ((*table)->layout.slots, 15u);
  EXPECT_EQ((*table)->epoch, 9u);
  for (uint32_t slot = 0; slot < 15; ++slot) EXPECT_EQ(entry(slot).state, SlotState::kFree);
}

TEST_F(SpanTableTest, AClearedHeaderIsAnEmptySpan) {
  writer_.clear_header(at(), kPlace);
  ASSERT_TRUE(decode().ok());
  EXPECT_FALSE(decode()->has_value());
}

TEST_F(SpanTableTest, AnyChangedHeaderByteIsFound) {
  for (size_t i = 0; i < 64; ++i) {
    at()[i] ^= std::byte{0x10};
    EXPECT_EQ(decode().status().code(), Code::kCorrupt) << "byte " << i;
    at()[i] ^= std::byte{0x10};
  }
}

TEST_F(SpanTableTest, ATableOfAnotherPlaceIsFound) {
  SpanPlace next = kPlace, longer = kPlace, other_chunk = kPlace;
  ++next.span_in_chunk;
  longer.span_bytes *= 2;
  ++other_chunk.nonce;
  for (const bool formatted : {true, false}) {
    if (!formatted) writer_.clear_header(at(), kPlace);
    EXPECT_FALSE(decode_span_table(memory_.span(), next).ok());
    EXPECT_FALSE(decode_span_table(memory_.span(), other_chunk).ok());
    EXPECT_FALSE(decode_span_table(memory_.span().first(1000), kPlace).ok());
    EXPECT_EQ(decode_span_table(memory_.span(), longer).ok(), !formatted);
  }
}

TEST_F(SpanTableTest, ZerosAreNoEmptySpan) {
  std::memset(at(), 0, kSpanHeaderBytes);
  EXPECT_EQ(decode().status().code(), Code::kCorrupt);
}

TEST_F(SpanTableTest, ALabelHoldsItsNonceAndEveryChangedByteIsFound) {
  writer_.label(at(), 77);
  EXPECT_EQ(decode_label(memory_.span()), 77u);
  for (size_t i = 128; i < 152; ++i) {
    at()[i] ^= std::byte{0x10};
    EXPECT_FALSE(decode_label(memory_.span()).has_value()) << "byte " << i;
    at()[i] ^= std::byte{0x10};
  }
  EXPECT_TRUE(decode().ok()) << "the header beside it is as it was";
}

TEST_F(SpanTableTest, SizesThatLieAreRefusedThoughTheCheckIsRight) {
  const uint64_t version_and_entry = 2 | uint64_t{256} << 32, run = 1 | uint64_t{15} << 32;
  forge(1, version_and_entry);
  EXPECT_TRUE(decode().ok()) << "the method itself";
  for (const uint64_t word : {version_and_entry + 1, uint64_t{2}, 2 | uint64_t{0x80000000} << 32}) {
    forge(1, word);
    EXPECT_FALSE(decode().ok());
  }
  forge(1, version_and_entry);
  for (const uint64_t bytes : {0ull, 4095ull, 8192ull, ~0ull, ~0ull - 4095}) {
    forge(2, bytes);
    EXPECT_FALSE(decode().ok()) << bytes;
  }
  forge(2, 4096);
  for (const uint64_t word : {uint64_t{0}, run - 1, run + 1, run + (uint64_t{1} << 32),
                              3 | uint64_t{45} << 32, ~uint64_t{0}}) {
    forge(3, word);
    EXPECT_FALSE(decode().ok()) << word;
  }
}

TEST_F(SpanTableTest, AFullEntryHoldsItsRecord) {
  writer_.set_filling(at(), kShape, 4);
  EXPECT_EQ(entry(4).state, SlotState::kFilling);
  EXPECT_EQ(entry(4).epoch, 9u);
  writer_.set_full(at(), kShape, 4, make_record(77, 4000));
  const SlotEntry full = entry(4);
  ASSERT_EQ(full.state, SlotState::kFull);
  EXPECT_EQ(full.record->hash, make_record(77, 4000).hash);
  writer_.set_free(at(), kShape, 4);
  EXPECT_EQ(entry(4).state, SlotState::kFree);
}

TEST_F(SpanTableTest, AnyChangedByteOfAFullEntryIsFound) {
  const PageRecord record = make_record(77, 4000);
  writer_.set_full(at(), kShape, 4, record);
  std::byte* const begin = at() + entry_offset(kShape, 4);
  for (size_t i = 0; i < kEntryHeadBytes + record_bytes(record); ++i) {
    begin[i] ^= std::byte{0x04};
    EXPECT_EQ(entry(4).state, SlotState::kTorn) << "byte " << i;
    begin[i] ^= std::byte{0x04};
  }
}

TEST_F(SpanTableTest, AnEntryVouchesForItsOwnSlotOnly) {
  writer_.set_full(at(), kShape, 4, make_record(77, 4000));
  std::memcpy(at() + entry_offset(kShape, 5), at() + entry_offset(kShape, 4), kShape.entry_bytes);
  EXPECT_EQ(entry(4).state, SlotState::kFull);
  EXPECT_EQ(entry(5).state, SlotState::kTorn);
}

TEST_F(SpanTableTest, AnOlderRecordUnderANewStateWordIsFound) {
  writer_.set_full(at(), kShape, 4, make_record(77, 4000));
  uint64_t state;
  std::memcpy(&state, at() + entry_offset(kShape, 4), 8);
  writer_.set_full(at(), kShape, 4, make_record(78, 4000));
  std::memcpy(at() + entry_offset(kShape, 4), &state, 8);
  EXPECT_EQ(entry(4).state, SlotState::kTorn);
}

TEST_F(SpanTableTest, APageOfAnotherSizeIsNotThisSlots) {
  writer_.set_full(at(), kShape, 4, make_record(77, 4097));
  EXPECT_EQ(entry(4).state, SlotState::kTorn);
}

}  // namespace
}  // namespace kvsidecar
