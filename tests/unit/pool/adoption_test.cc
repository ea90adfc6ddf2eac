// SPDX-License-Identifier: Apache-2.0
// Goal: a successor finds every whole page and nothing else, whatever instruction the predecessor
// died at and whatever the memory holds. Method: a scenario is run once; after each 8-byte store to
// a table the memory is copied, and every copy is adopted. Then damaged and hostile memory.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "sidecar/pool/host_pool.h"
#include "sidecar/pool/poison.h"
#include "sidecar/pool/span_table.h"
#include "tests/unit/pool/pool_support.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kSmall = 4096, kLarge = 100'000;
constexpr uint64_t kChunkBytes = 8 * kTestSpanBytes;

struct Adopted {
  SlotId slot;
  PageRecord record;
};

std::vector<Adopted> adopt(HostPool& pool, std::span<std::byte> memory) {
  std::vector<Adopted> found;
  pool.adopt_chunk(memory, [&](SlotId slot, PageRecord&& record) {
    found.push_back({slot, std::move(record)});
  });
  return found;
}

void copy_raw(std::span<const std::byte> from, std::span<std::byte> to) {
  unpoison(to.data(), to.size());
  std::memcpy(to.data(), from.data(), from.size());
}

// No two slots, found or allocated, share a byte or leave the chunk.
void expect_usable_and_disjoint(HostPool& pool, std::span<std::byte> memory,
                                const std::vector<Adopted>& found) {
  std::map<const std::byte*, const std::byte*> taken;
  const auto take = [&](SlotId slot) {
    const std::byte* const begin = pool.bytes(slot);
    const std::byte* const end = begin + pool.slot_bytes(slot);
    ASSERT_GE(begin, memory.data());
    ASSERT_LE(end, memory.data() + memory.size());
    const auto after = taken.upper_bound(begin);
    ASSERT_TRUE(after == taken.end() || end <= after->first);
    ASSERT_TRUE(after == taken.begin() || std::prev(after)->second <= begin);
    taken.emplace(begin, end);
  };
  for (const Adopted& page : found) take(page.slot);
  for (const uint64_t page : {kLarge, kSmall})
    for (SlotId slot; (slot = pool.allocate(slot_shape(page, 1, 0))) != kNoSlot;) take(slot);
}

// Counts as present what was surely published and not yet touched again, as possible what the
// running operation may or may not have got to.
struct Model {
  std::set<uint64_t> present;
  uint64_t possible = 0;
};

class EveryKill : public testing::Test {
 protected:
  EveryKill() : memory_(kChunkBytes), copy_(kChunkBytes), pool_(7, kTestSpanBytes) {
    pool_.add_chunk(memory_.span());
    pool_.observe_stores([this] { kill_here(); });
  }

  static uint64_t page_bytes(uint64_t number) { return number >= 1000 ? kLarge : kSmall; }

  SlotId put(uint64_t number) {
    model_.possible = number;
    const uint64_t bytes = page_bytes(number);
    const SlotId slot = pool_.allocate(slot_shape(bytes, 1, 0));
    if (slot == kNoSlot) return slot;
    kill_here();
    fill_page(pool_, slot, number, bytes / 2);
    kill_here();
    fill_page(pool_, slot, number, bytes);
    EXPECT_TRUE(pool_.publish(slot, make_record(number, bytes), access_at(number, 1)));
    model_ = {model_.present, 0};
    model_.present.insert(number);
    slots_[number] = slot;
    kill_here();
    return slot;
  }
  void release(uint64_t number) {
    model_.present.erase(number);
    model_.possible = number;
    pool_.release(slots_.at(number));
    model_.possible = 0;
    slots_.erase(number);
  }

  void kill_here() {
    ++kills_;
    unpoison(memory_.span().data(), kChunkBytes);
    copy_raw(memory_.span(), copy_.span());
    HostPool successor(8, kTestSpanBytes);
    std::set<uint64_t> seen;
    const std::vector<Adopted> found = adopt(successor, copy_.span());
    for (const Adopted& page : found) {
      const uint64_t number = page.record.hash.low;
      EXPECT_TRUE(seen.insert(number).second) << "page " << number << " twice";
      EXPECT_TRUE(model_.present.contains(number) || model_.possible == number) << number;
      EXPECT_TRUE(holds_page(successor, page.slot, number, page_bytes(number))) << number;
    }
    for (const uint64_t number : model_.present) EXPECT_TRUE(seen.contains(number)) << number;
    EXPECT_EQ(successor.usage().slots_full, found.size());
    successor.release_quarantine();
    EXPECT_EQ(successor.usage().slots_quarantined, 0u);
    if (kills_ % 16 == 0) expect_usable_and_disjoint(successor, copy_.span(), found);
    ASSERT_FALSE(HasFailure()) << "after " << kills_ << " kills";
  }

  TestMemory memory_, copy_;
  HostPool pool_;
  Model model_;
  std::map<uint64_t, SlotId> slots_;
  uint64_t kills_ = 0;
};

TEST_F(EveryKill, LeavesWholePagesOfOneSize) {
  for (uint64_t number = 1; number <= 20; ++number) put(number);
  for (uint64_t number = 1; number <= 20; number += 3) release(number);
  for (uint64_t number = 21; number <= 30; ++number) put(number);
  for (uint64_t number = 2; number <= 20; number += 3) release(number);
  EXPECT_GT(kills_, 500u);
}

TEST_F(EveryKill, LeavesWholePagesWhenSpansChangeTheirShape) {
  for (int round = 0; round < 3; ++round) {
    for (uint64_t number = 1000; number < 1003; ++number) ASSERT_NE(put(number), kNoSlot);
    for (uint64_t number = 1000; number < 1003; ++number) release(number);
    for (uint64_t number = 1; number <= 17; ++number) ASSERT_NE(put(number), kNoSlot);
    for (uint64_t number = 1; number <= 17; ++number) release(number);
  }
  EXPECT_GT(kills_, 500u);
}

TEST_F(EveryKill, LeavesNoPageWhoseBufferIsQuarantined) {
  put(1);
  put(2);
  model_.present.erase(1);
  model_.possible = 1;
  pool_.quarantine(slots_.at(1));
  model_.possible = 0;
  kill_here();
  pool_.release(slots_.at(1));
  put(3);
}

TEST_F(EveryKill, APageThatImitatesATableIsNeverTakenForOne) {
  // The bytes of a table with a full page, put where an inner span of a run begins.
  TestMemory forged(kTestSpanBytes);
  TableWriter writer(1);
  const SlotShape small = slot_shape(kSmall, 1, 0);
  const RunLayout layout = layout_run(small, kTestSpanBytes, 1);
  const SlotId slot = put(1000);
  const uint64_t run_begin =
      static_cast<uint64_t>(pool_.bytes(slot) - memory_.span().data()) / kTestSpanBytes;
  const uint64_t inner = run_begin + 1;
  writer.format(forged.span().data(), {kTestSpanBytes, static_cast<uint32_t>(inner), 0}, small,
                layout, false);
  writer.set_full(forged.span().data(), small, 0, make_record(666, kSmall));
  std::byte* const target = memory_.span().data() + inner * kTestSpanBytes;
  ASSERT_LT(target + layout.slots_begin, pool_.bytes(slot) + kLarge);
  model_.present.erase(1000);  // its own bytes no longer fit the test's pattern
  std::memcpy(target, forged.span().data(), layout.slots_begin);

  HostPool successor(8, kTestSpanBytes);
  copy_raw(memory_.span(), copy_.span());
  const auto found = adopt(successor, copy_.span());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].record.hash.low, 1000u);

  model_.possible = 0;
  pool_.observe_stores([&] {
    unpoison(memory_.span().data(), kChunkBytes);
    copy_raw(memory_.span(), copy_.span());
    HostPool next(9, kTestSpanBytes);
    for (const Adopted& page : adopt(next, copy_.span()))
      EXPECT_EQ(page.record.hash.low, 1000u) << "a forged page was adopted";
  });
  pool_.release(slot);
}

TEST(Adoption, FillingSlotsOfThePredecessorWaitForTheEndOfQuarantine) {
  TestMemory memory(kTestSpanBytes);
  const SlotShape shape = slot_shape(kSmall, 1, 0);
  SlotId filling;
  {
    HostPool predecessor(1, kTestSpanBytes);
    predecessor.add_chunk(memory.span());
    put_page(predecessor, shape, 1, kSmall);
    filling = predecessor.allocate(shape);
  }
  HostPool pool(2, kTestSpanBytes);
  EXPECT_EQ(adopt(pool, memory.span()).size(), 1u);
  EXPECT_EQ(pool.usage().slots_quarantined, 1u);
  expect_sums(pool, kTestSpanBytes, kSmall);
  std::set<SlotId> slots;
  for (SlotId slot; (slot = pool.allocate(shape)) != kNoSlot;) slots.insert(slot);
  EXPECT_EQ(slots.size(), 13u);
  EXPECT_FALSE(slots.contains(filling));
  pool.release_quarantine();
  EXPECT_EQ(pool.allocate(shape), filling);
}

TEST(Adoption, ASpanWithoutAReadableTableWaitsForTheEndOfQuarantine) {
  TestMemory memory(2 * kTestSpanBytes);
  const SlotShape shape = slot_shape(kSmall, 1, 0);
  {
    HostPool predecessor(1, kTestSpanBytes);
    predecessor.add_chunk(memory.span());
    for (uint64_t i = 1; i <= 20; ++i) put_page(predecessor, shape, i, kSmall);
  }
  memory.span()[20] ^= std::byte{1};
  HostPool pool(2, kTestSpanBytes);
  EXPECT_EQ(adopt(pool, memory.span()).size(), 5u);
  EXPECT_EQ(pool.usage().spans_empty, 0u);
  expect_sums(pool, kTestSpanBytes, 0);
  pool.release_quarantine();
  EXPECT_EQ(pool.usage().spans_empty, 1u);
  expect_sums(pool, kTestSpanBytes, 0);
}

// What a client puts may imitate a table; where the run's own header is damaged nothing else says
// that it is a page.
TEST(Adoption, APageUnderADamagedHeaderIsTakenForNothing) {
  constexpr uint64_t kSecret = 0x1234567890abcdefu;
  for (const bool zeros : {false, true}) {
    TestMemory memory(kChunkBytes);
    HostPool predecessor(1, kTestSpanBytes, kSecret);
    predecessor.add_chunk(memory.span());
    const SlotId slot = put_page(predecessor, slot_shape(kLarge, 1, 0), 1000, kLarge);
    std::byte* const page = predecessor.bytes(slot);
    unpoison(memory.span().data(), kChunkBytes);
    std::memset(page, 0, kLarge);
    const uint64_t run =
        static_cast<uint64_t>(page - memory.span().data()) / kTestSpanBytes * kTestSpanBytes;
    TableWriter writer(1);
    const SlotShape small = slot_shape(kSmall, 1, 0);
    const RunLayout layout = layout_run(small, kTestSpanBytes, 1);
    for (uint64_t at = run + kTestSpanBytes; !zeros && at < run + kLarge; at += kTestSpanBytes) {
      const auto number = static_cast<uint32_t>(at / kTestSpanBytes);
      writer.format(&memory.span()[at], {kTestSpanBytes, number, 0}, small, layout, false);
      writer.set_full(&memory.span()[at], small, 0, make_record(666, kSmall));
    }
    const uint64_t empty = predecessor.usage().spans_empty;
    // One bit of it, or all of it, as a page of memory that was lost.
    if (zeros)
      std::memset(&memory.span()[run], 0, 64);
    else
      memory.span()[run + 24] ^= std::byte{1};
    HostPool pool(2, kTestSpanBytes, 99);
    EXPECT_TRUE(adopt(pool, memory.span()).empty());
    EXPECT_EQ(pool.usage().spans_empty, empty) << "its spans wait for the end of quarantine";
    expect_sums(pool, kTestSpanBytes, 0);
    pool.release_quarantine();
    EXPECT_EQ(pool.usage().spans_empty, kChunkBytes / kTestSpanBytes);
  }
}

TEST(Adoption, AChunkWithoutItsLabelWaitsForTheEndOfQuarantineAndIsThenUsable) {
  TestMemory memory(kChunkBytes);
  const SlotShape shape = slot_shape(kSmall, 1, 0);
  HostPool predecessor(1, kTestSpanBytes, 7);
  predecessor.add_chunk(memory.span());
  put_page(predecessor, shape, 1, kSmall);
  unpoison(memory.span().data(), kChunkBytes);
  memory.span()[136] ^= std::byte{1};
  HostPool pool(2, kTestSpanBytes, 8);
  EXPECT_TRUE(adopt(pool, memory.span()).empty());
  EXPECT_EQ(pool.allocate(shape), kNoSlot);
  pool.release_quarantine();
  put_page(pool, shape, 2, kSmall);
  unpoison(memory.span().data(), kChunkBytes);
  HostPool next(3, kTestSpanBytes, 9);
  EXPECT_EQ(adopt(next, memory.span()).size(), 1u) << "it has a label again";
}

TEST(Adoption, TwoSlotsWithOnePageAreBothReportedAndOneMayBeReleasedAtOnce) {
  TestMemory memory(kTestSpanBytes);
  {
    HostPool predecessor(1, kTestSpanBytes);
    predecessor.add_chunk(memory.span());
    put_page(predecessor, slot_shape(kSmall, 1, 0), 5, kSmall);
    put_page(predecessor, slot_shape(kSmall, 1, 0), 5, kSmall);
  }
  HostPool pool(2, kTestSpanBytes);
  std::set<uint64_t> seen;
  pool.adopt_chunk(memory.span(), [&](SlotId slot, PageRecord&& record) {
    if (!seen.insert(record.hash.low).second) pool.release(slot);
  });
  EXPECT_EQ(pool.usage().slots_full, 1u);
  expect_sums(pool, kTestSpanBytes, 0);
}

TEST(Adoption, EveryAdoptedPageMayBeReleasedFromTheCallback) {
  TestMemory memory(kChunkBytes);
  {
    HostPool predecessor(1, kTestSpanBytes);
    predecessor.add_chunk(memory.span());
    for (uint64_t i = 1; i <= 40; ++i) put_page(predecessor, slot_shape(kSmall, 1, 0), i, kSmall);
    put_page(predecessor, slot_shape(kLarge, 1, 0), 1000, kLarge);
  }
  HostPool pool(2, kTestSpanBytes);
  pool.adopt_chunk(memory.span(), [&](SlotId slot, PageRecord&&) { pool.release(slot); });
  EXPECT_EQ(pool.usage().spans_empty, 8u);
}

TEST(Adoption, AdoptedPagesMayBeEvicted) {
  TestMemory memory(kTestSpanBytes);
  const SlotShape shape = slot_shape(kSmall, 1, 0);
  {
    HostPool predecessor(1, kTestSpanBytes);
    predecessor.add_chunk(memory.span());
    for (uint64_t i = 1; i <= 15; ++i) put_page(predecessor, shape, i, kSmall);
  }
  HostPool pool(2, kTestSpanBytes);
  EXPECT_EQ(adopt(pool, memory.span()).size(), 15u);
  EXPECT_EQ(pool.allocate(shape), kNoSlot);
  EXPECT_TRUE(pool.reclaim(
      shape, [](SlotId) { return true; }, [&](SlotId slot) { pool.release(slot); }));
  EXPECT_NE(pool.allocate(shape), kNoSlot);
}

TEST(Adoption, HoldsForDamagedMemory) {
  TestMemory good(kChunkBytes), bad(kChunkBytes);
  {
    HostPool predecessor(1, kTestSpanBytes);
    predecessor.add_chunk(good.span());
    for (uint64_t i = 1; i <= 40; ++i) put_page(predecessor, slot_shape(kSmall, 1, 0), i, kSmall);
    put_page(predecessor, slot_shape(kLarge, 1, 0), 1000, kLarge);
    put_page(predecessor, slot_shape(20'000, 1, 0), 2000, 20'000);
  }
  std::mt19937 random(99);
  for (int round = 0; round < 400; ++round) {
    copy_raw(good.span(), bad.span());
    for (uint64_t damage = random() % 12 + 1; damage > 0; --damage) {
      const uint64_t span = random() % 8 * kTestSpanBytes;
      const uint64_t at = span + random() % (damage % 2 == 0 ? 64 : 4096);
      if (damage % 3 == 0) {
        const uint64_t from = random() % 8 * kTestSpanBytes;  // another span's table, whole
        std::memmove(&bad.span()[span], &bad.span()[from], 4096);
      } else {
        bad.span()[at] = static_cast<std::byte>(random());
      }
    }
    HostPool pool(2, kTestSpanBytes);
    const auto found = adopt(pool, bad.span());
    for (const Adopted& page : found) ASSERT_TRUE(pool.record(page.slot).ok());
    if (round % 2 == 0) pool.release_quarantine();
    expect_usable_and_disjoint(pool, bad.span(), found);
    ASSERT_FALSE(testing::Test::HasFailure()) << "round " << round;
  }
}

}  // namespace
}  // namespace kvsidecar
