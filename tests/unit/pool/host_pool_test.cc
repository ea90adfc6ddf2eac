// SPDX-License-Identifier: Apache-2.0
// Goal: slots are handed out once, states count, every byte has one account, spans come back.
// Method: small spans over plain memory; random operations beside a model.
#include "sidecar/pool/host_pool.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "sidecar/pool/poison.h"
#include "tests/unit/pool/pool_support.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kPage = 4096;

TEST(HostPool, WithoutMemoryHasNoSlot) {
  HostPool pool(1, kTestSpanBytes);
  EXPECT_EQ(pool.allocate(slot_shape(kPage, 1, 0)), kNoSlot);
  EXPECT_FALSE(pool.reclaim(
      slot_shape(kPage, 1, 0), [](SlotId) { return true; }, [](SlotId) {}));
  EXPECT_EQ(pool.usage().bytes, 0u);
}

TEST(HostPool, HandsOutEverySlotOnceAndThenNone) {
  TestMemory memory(4 * kTestSpanBytes);
  HostPool pool(1, kTestSpanBytes);
  pool.add_chunk(memory.span());
  const SlotShape shape = slot_shape(kPage, 1, 0);
  std::set<std::byte*> seen;
  for (SlotId slot; (slot = pool.allocate(shape)) != kNoSlot;) {
    std::byte* const at = pool.bytes(slot);
    EXPECT_TRUE(seen.insert(at).second);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(at) % kSlotAlignBytes, 0u);
    EXPECT_GE(at, memory.span().data());
    EXPECT_LE(at + kPage, memory.span().data() + memory.span().size());
  }
  EXPECT_EQ(seen.size(), 4 * 15u);
  EXPECT_EQ(pool.usage().slots_filling, 60u);
  expect_sums(pool, kTestSpanBytes, 60 * kPage);
}

TEST(HostPool, APublishedRecordReadsBack) {
  TestMemory memory(kTestSpanBytes);
  HostPool pool(1, kTestSpanBytes);
  pool.add_chunk(memory.span());
  const SlotId slot = put_page(pool, slot_shape(kPage, 1, 0), 42, kPage);
  const auto record = pool.record(slot);
  ASSERT_TRUE(record.ok());
  EXPECT_EQ(record->hash, make_record(42, kPage).hash);
  EXPECT_EQ(record->key, make_record(42, kPage).key);
}

TEST(HostPool, ARecordThatDoesntFitItsEntryIsRefusedAndTheSlotStaysFilling) {
  TestMemory memory(kTestSpanBytes);
  HostPool pool(1, kTestSpanBytes);
  pool.add_chunk(memory.span());
  const SlotId slot = pool.allocate(slot_shape(kPage, 1, 0));
  EXPECT_FALSE(pool.publish(slot, make_record(1, kPage, 300), access_at(1, 1)));
  EXPECT_FALSE(pool.publish(slot, make_record(1, kPage + 1), access_at(1, 1)));
  EXPECT_EQ(pool.usage().slots_filling, 1u);
  EXPECT_TRUE(pool.publish(slot, make_record(1, kPage), access_at(1, 1)));
}

TEST(HostPool, AnEmptySpanServesAnotherShape) {
  TestMemory memory(kTestSpanBytes);
  HostPool pool(1, kTestSpanBytes);
  pool.add_chunk(memory.span());
  const SlotId small = put_page(pool, slot_shape(kPage, 1, 0), 1, kPage);
  EXPECT_EQ(pool.allocate(slot_shape(20'000, 1, 0)), kNoSlot);
  pool.release(small);
  EXPECT_EQ(pool.usage().spans_empty, 1u);
  const SlotId large = pool.allocate(slot_shape(20'000, 1, 0));
  ASSERT_NE(large, kNoSlot);
  EXPECT_EQ(pool.slot_bytes(large), 20'480u);
  pool.release(large);
  EXPECT_NE(put_page(pool, slot_shape(kPage, 1, 0), 2, kPage), kNoSlot);
}

TEST(HostPool, APageOverASpanLiesInARunAndGivesItBack) {
  TestMemory memory(10 * kTestSpanBytes);
  HostPool pool(1, kTestSpanBytes);
  pool.add_chunk(memory.span());
  const uint64_t page = 100'000;
  const SlotShape shape = slot_shape(page, 1, 0);
  std::vector<SlotId> slots;
  for (uint64_t i = 0;; ++i) {
    const SlotId slot = put_page(pool, shape, i + 1, page);
    if (slot == kNoSlot) break;
    slots.push_back(slot);
  }
  EXPECT_EQ(slots.size(), 6u) << "two runs of five spans, not five of two";
  for (size_t i = 0; i < slots.size(); ++i) EXPECT_TRUE(holds_page(pool, slots[i], i + 1, page));
  expect_sums(pool, kTestSpanBytes, 0);
  for (const SlotId slot : slots) pool.release(slot);
  EXPECT_EQ(pool.usage().spans_empty, 10u);
  for (int i = 0; i < 10 * 15; ++i) ASSERT_NE(pool.allocate(slot_shape(kPage, 1, 0)), kNoSlot) << i;
}

TEST(HostPool, ARunNeverCrossesAChunk) {
  TestMemory a(kTestSpanBytes), b(kTestSpanBytes);
  HostPool pool(1, kTestSpanBytes);
  pool.add_chunk(a.span());
  pool.add_chunk(b.span());
  EXPECT_EQ(pool.allocate(slot_shape(kTestSpanBytes, 1, 0)), kNoSlot);
  TestMemory c(2 * kTestSpanBytes);
  pool.add_chunk(c.span());
  EXPECT_NE(pool.allocate(slot_shape(kTestSpanBytes, 1, 0)), kNoSlot);
}

TEST(HostPool, AQuarantinedSlotIsCountedAndKeptUntilReleased) {
  TestMemory memory(kTestSpanBytes);
  HostPool pool(1, kTestSpanBytes);
  pool.add_chunk(memory.span());
  const SlotShape shape = slot_shape(kPage, 1, 0);
  const SlotId full = put_page(pool, shape, 1, kPage);
  const SlotId filling = pool.allocate(shape);
  pool.quarantine(full);
  pool.quarantine(filling);
  EXPECT_EQ(pool.usage().slots_quarantined, 2u);
  EXPECT_EQ(pool.usage().slots_full, 0u);
  expect_sums(pool, kTestSpanBytes, 2 * kPage);
  for (SlotId slot; (slot = pool.allocate(shape)) != kNoSlot;) {
    EXPECT_NE(slot, full);
    EXPECT_NE(slot, filling);
  }
  EXPECT_FALSE(pool.reclaim(
      shape, [](SlotId) { return true; }, [](SlotId) { FAIL() << "nothing is FULL"; }));
  pool.release(full);
  EXPECT_EQ(pool.allocate(shape), full);
}

// O8-12: the sums are kept as slots change hands, and equal a count of all that is held.
TEST(HostPool, EveryByteHasOneAccountThroughRandomUse) {
  TestMemory memory(16 * kTestSpanBytes);
  HostPool pool(1, kTestSpanBytes);
  pool.add_chunk(memory.span());
  std::mt19937 random(5);
  struct Held {
    uint64_t number, page;
    bool full;
  };
  std::map<SlotId, Held> held;
  const uint64_t pages[] = {100, 4096, 5000, 30'000, 65'000, 200'000};
  for (uint64_t step = 1; step < 20'000; ++step) {
    const uint64_t page = pages[random() % std::size(pages)];
    const uint32_t action = random() % 8;
    if (action < 5 || held.empty()) {
      const SlotId slot = pool.allocate(slot_shape(page, 1, 0));
      if (slot == kNoSlot) continue;
      fill_page(pool, slot, step, page);
      const bool full = action < 4;
      if (full) {
        ASSERT_TRUE(pool.publish(slot, make_record(step, page), access_at(step, step)));
      }
      ASSERT_TRUE(held.emplace(slot, Held{step, page, full}).second) << "handed out twice";
    } else {
      const auto victim = std::next(held.begin(), static_cast<long>(random() % held.size()));
      ASSERT_TRUE(holds_page(pool, victim->first, victim->second.number, victim->second.page));
      if (action == 5 && victim->second.full) pool.quarantine(victim->first);
      pool.release(victim->first);
      held.erase(victim);
    }
    uint64_t filling_bytes = 0, full = 0;
    for (const auto& [slot, h] : held) {
      full += h.full;
      if (!h.full) filling_bytes += pool.slot_bytes(slot);
    }
    ASSERT_EQ(pool.usage().slots_full, full);
    ASSERT_EQ(pool.usage().slots_filling, held.size() - full);
    expect_sums(pool, kTestSpanBytes, filling_bytes);
  }
  for (const auto& [slot, h] : held) pool.release(slot);
  EXPECT_EQ(pool.usage().spans_empty, 16u);
  EXPECT_EQ(pool.usage().stranded_bytes, 0u);
}

TEST(HostPool, UsingASlotNumberThatIsFreeIsOurOwnBug) {
  TestMemory memory(kTestSpanBytes);
  HostPool pool(1, kTestSpanBytes);
  pool.add_chunk(memory.span());
  const SlotId kept = put_page(pool, slot_shape(kPage, 1, 0), 1, kPage);
  const SlotId slot = put_page(pool, slot_shape(kPage, 1, 0), 2, kPage);
  pool.release(slot);
  EXPECT_DEATH(pool.release(slot), "check failed");
  EXPECT_DEATH(pool.bytes(kNoSlot - 1), "check failed");
  pool.release(kept);
}

#if defined(KVSIDECAR_POISON)
TEST(HostPool, TouchingAFreeSlotIsFoundByTheSanitizer) {
  TestMemory memory(kTestSpanBytes);
  HostPool pool(1, kTestSpanBytes);
  pool.add_chunk(memory.span());
  const SlotId kept = put_page(pool, slot_shape(kPage, 1, 0), 1, kPage);
  const SlotId slot = put_page(pool, slot_shape(kPage, 1, 0), 2, kPage);
  volatile std::byte* const at = pool.bytes(slot);
  at[100] = std::byte{1};
  pool.release(slot);
  EXPECT_DEATH(at[100] = std::byte{2}, "use-after-poison");
  pool.release(kept);
}
#endif

}  // namespace
}  // namespace kvsidecar
