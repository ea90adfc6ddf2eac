// SPDX-License-Identifier: Apache-2.0
// Goal: slots never overlap the table or each other, every allowed page fits its shape, and large
// pages waste little. Method: the arithmetic over many sizes.
#include "sidecar/pool/span_layout.h"

#include <gtest/gtest.h>

#include "ipc/layout.h"
#include "sidecar/page_record.h"
#include "sidecar/pool/host_pool.h"

namespace kvsidecar {
namespace {

TEST(SpanLayout, AShapeHoldsTheLongestRecordOfItsNamespace) {
  for (const size_t parts : {size_t{1}, size_t{8}, size_t{kPartsMax}}) {
    for (const size_t description : {size_t{0}, size_t{100}, size_t{kDescriptionBytesMax}}) {
      const SlotShape shape = slot_shape(5000, parts, description);
      EXPECT_TRUE(is_sane(shape)) << parts << " parts, description of " << description;
      EXPECT_GE(shape.entry_bytes, 8 + record_bytes(parts, kKeyBytesMax, description));
      EXPECT_EQ(shape.slot_bytes, 8192u);
    }
  }
  EXPECT_EQ(slot_shape(4096, 1, 0).entry_bytes, 256u);
}

TEST(SpanLayout, SlotsAreAlignedAndInsideTheRun) {
  for (uint64_t page = 1; page < 24u << 20; page = page * 5 / 3 + 1) {
    for (uint32_t spans = 1; spans <= 8; ++spans) {
      const SlotShape shape = slot_shape(page, 1, 0);
      const RunLayout run = layout_run(shape, kSpanBytes, spans);
      EXPECT_EQ(run.slots_begin % kSlotAlignBytes, 0u);
      EXPECT_GE(run.slots_begin, kSpanHeaderBytes + uint64_t{run.slots} * shape.entry_bytes);
      if (run.slots == 0) continue;
      EXPECT_LE(run.slots_begin + run.slots * shape.slot_bytes, spans * kSpanBytes);
      EXPECT_EQ(run.unused_bytes + run.slots * shape.slot_bytes, spans * kSpanBytes);
      EXPECT_LE(uint64_t{run.slots}, spans * kSpanBytes / kSlotAlignBytes);
    }
  }
}

TEST(SpanLayout, APageOverASpanTakesARun) {
  const SlotShape shape = slot_shape(kSpanBytes, 1, 0);
  EXPECT_EQ(layout_run(shape, kSpanBytes, 1).slots, 0u);
  EXPECT_EQ(shortest_run(shape, kSpanBytes, 64), 2u);
  EXPECT_EQ(shortest_run(slot_shape(100u << 20, 1, 0), kSpanBytes, 64), 7u);
  EXPECT_EQ(shortest_run(slot_shape(1u << 30, 1, 0), kSpanBytes, 64), 0u) << "no chunk holds it";
  EXPECT_EQ(preferred_run(slot_shape(1u << 30, 1, 0), kSpanBytes, 64), 0u);
}

TEST(SpanLayout, ThePreferredRunOfPagesUpTo8MiBWastesAtMostASixteenth) {
  for (uint64_t page = 4096; page <= 8u << 20; page = page * 9 / 8 + 4096) {
    const SlotShape shape = slot_shape(page, 1, 0);
    const uint32_t spans = preferred_run(shape, kSpanBytes, 64);
    ASSERT_NE(spans, 0u);
    EXPECT_LE(layout_run(shape, kSpanBytes, spans).unused_bytes, spans * kSpanBytes / 16)
        << page << " byte pages, " << spans << " spans";
  }
}

TEST(SpanLayout, ASmallChunkGetsTheBestRunThatFitsIt) {
  const SlotShape shape = slot_shape(8u << 20, 1, 0);
  EXPECT_EQ(preferred_run(shape, kSpanBytes, 64), 8u);
  EXPECT_EQ(preferred_run(shape, kSpanBytes, 4), 4u);
  EXPECT_EQ(preferred_run(shape, kSpanBytes, 1), 1u);
}

TEST(SpanLayout, SizesThatNoNamespaceMakesAreNotSane) {
  EXPECT_TRUE(is_sane({4096, 256}));
  EXPECT_FALSE(is_sane({0, 256}));
  EXPECT_FALSE(is_sane({4097, 256}));
  EXPECT_FALSE(is_sane({kPageBytesMax + 4096, 256}));
  EXPECT_FALSE(is_sane({4096, 0}));
  EXPECT_FALSE(is_sane({4096, 128}));
  EXPECT_FALSE(is_sane({4096, 300}));
  EXPECT_FALSE(is_sane({4096, 65536}));
}

}  // namespace
}  // namespace kvsidecar
