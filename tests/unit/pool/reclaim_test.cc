// SPDX-License-Identifier: Apache-2.0
// Goal: reclaim() frees a slot whenever something may go, never takes what is held, moves memory
// between shapes when one has none or the other's is colder, and never loses a byte over it.
// Method: small spans, a conductor of three lines, random mixes.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "sidecar/pool/host_pool.h"
#include "tests/unit/pool/pool_support.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kSmall = 4096, kMiddle = 30'000, kLarge = 100'000;

// Pages by number, leases, and the loop that a conductor runs around allocate().
class ReclaimTest : public testing::Test {
 protected:
  explicit ReclaimTest(uint64_t spans = 16) : memory_(spans * kTestSpanBytes) {
    pool_.add_chunk(memory_.span());
  }

  SlotId put(uint64_t number, uint64_t page_bytes, uint64_t request) {
    const SlotShape shape = slot_shape(page_bytes, 1, 0);
    SlotId slot = pool_.allocate(shape);
    for (int tries = 0; slot == kNoSlot && tries < 4; ++tries) {
      if (!reclaim(shape)) return kNoSlot;
      slot = pool_.allocate(shape);
    }
    if (slot == kNoSlot) return slot;
    fill_page(pool_, slot, number, page_bytes);
    EXPECT_TRUE(pool_.publish(slot, make_record(number, page_bytes), access_at(number, request)));
    EXPECT_TRUE(pages_.emplace(slot, number).second) << "slot handed out twice";
    slot_of_[number] = slot;
    return slot;
  }
  bool reclaim(const SlotShape& shape) {
    return pool_.reclaim(
        shape, [this](SlotId slot) { return !leased_.contains(pages_.at(slot)); },
        [this](SlotId slot) { drop(slot); });
  }
  void drop(SlotId slot) {
    EXPECT_FALSE(leased_.contains(pages_.at(slot))) << "a leased page was evicted";
    slot_of_.erase(pages_.at(slot));
    pages_.erase(slot);
    pool_.release(slot);
    ++evictions_;
  }
  uint64_t count(uint64_t first, uint64_t end) const {
    return static_cast<uint64_t>(
        std::distance(slot_of_.lower_bound(first), slot_of_.lower_bound(end)));
  }

  auto any_page(uint64_t random) {
    return std::next(slot_of_.begin(), static_cast<long>(random % slot_of_.size()));
  }

  TestMemory memory_;
  HostPool pool_{1, kTestSpanBytes};
  std::map<SlotId, uint64_t> pages_;
  std::map<uint64_t, SlotId> slot_of_;
  std::set<uint64_t> leased_;
  uint64_t evictions_ = 0;
};

TEST_F(ReclaimTest, OneEvictionMakesRoomForOnePageOfTheSameShape) {
  for (uint64_t i = 1; i <= 16 * 15; ++i) put(i, kSmall, i);
  EXPECT_EQ(evictions_, 0u);
  for (uint64_t i = 1000; i < 1100; ++i) ASSERT_NE(put(i, kSmall, i), kNoSlot);
  EXPECT_EQ(evictions_, 100u);
  EXPECT_EQ(count(1000, 1100), 100u) << "an untaught eviction is LRU";
}

TEST_F(ReclaimTest, ALeasedPageIsNeverTaken) {
  for (uint64_t i = 1; i <= 16 * 15; ++i) put(i, kSmall, i);
  for (uint64_t i = 1; i <= 16 * 15; i += 2) leased_.insert(i);
  for (uint64_t i = 1000; i < 2000; ++i) ASSERT_NE(put(i, kSmall, i), kNoSlot);
  for (const uint64_t number : leased_) EXPECT_TRUE(slot_of_.contains(number));
}

// O2-06
TEST_F(ReclaimTest, WhenEverythingIsHeldItSaysSo) {
  for (uint64_t i = 1; i <= 16 * 15; ++i) {
    put(i, kSmall, i);
    leased_.insert(i);
  }
  EXPECT_FALSE(reclaim(slot_shape(kSmall, 1, 0)));
  EXPECT_FALSE(reclaim(slot_shape(kLarge, 1, 0)));
  EXPECT_EQ(evictions_, 0u);
  leased_.erase(77);
  EXPECT_TRUE(reclaim(slot_shape(kSmall, 1, 0)));
  EXPECT_EQ(evictions_, 1u);
}

TEST_F(ReclaimTest, AShapeWithoutSlotsGetsTheColdestSpansOfAnother) {
  for (uint64_t i = 1; i <= 16 * 15; ++i) put(i, kSmall, i);
  ASSERT_NE(put(5000, kMiddle, 5000), kNoSlot);
  EXPECT_EQ(evictions_ % 15, 0u) << "whole spans";
  EXPECT_LE(evictions_, 4 * 15u);
  for (uint64_t i = 1; i <= evictions_; ++i) EXPECT_FALSE(slot_of_.contains(i)) << "the oldest go";
  expect_sums(pool_, kTestSpanBytes, 0);
}

TEST_F(ReclaimTest, ASpanWithALeasedPageStaysWhole) {
  for (uint64_t i = 1; i <= 16 * 15; ++i) put(i, kSmall, i);
  for (uint64_t span = 0; span < 15; ++span) leased_.insert(span * 15 + 1);
  ASSERT_NE(put(5000, kMiddle, 5000), kNoSlot);
  EXPECT_EQ(evictions_, 15u) << "the one span without a lease";
}

TEST_F(ReclaimTest, AdjacentSpansAreFoundForAPageOverASpan) {
  for (uint64_t i = 1; i <= 16 * 15; ++i) put(i, kSmall, i);
  for (uint64_t span = 0; span < 16; ++span)
    if (span != 6 && span != 7) leased_.insert(span * 15 + 1);
  const SlotId slot = put(5000, kLarge, 5000);
  ASSERT_NE(slot, kNoSlot);
  EXPECT_TRUE(holds_page(pool_, slot, 5000, kLarge));
  EXPECT_EQ(evictions_, 30u);
}

TEST_F(ReclaimTest, AFillingSlotKeepsItsSpan) {
  std::vector<SlotId> filling;
  for (uint64_t i = 1; i <= 16 * 15; ++i) {
    if (i % 15 == 1)
      filling.push_back(pool_.allocate(slot_shape(kSmall, 1, 0)));
    else
      put(i, kSmall, i);
  }
  EXPECT_EQ(put(5000, kMiddle, 5000), kNoSlot);
  pool_.release(filling[3]);
  EXPECT_NE(put(5001, kMiddle, 5001), kNoSlot);
}

TEST_F(ReclaimTest, MemoryFollowsTheUseOfShapes) {
  uint64_t request = 0;
  for (uint64_t i = 1; i <= 16 * 15; ++i) put(i, kSmall, ++request);
  uint64_t number = 10'000;
  for (int i = 0; i < 2'000; ++i) ASSERT_NE(put(++number, kMiddle, ++request), kNoSlot);
  EXPECT_EQ(count(1, 10'000), 0u) << "small pages that nobody used for long are gone";
  EXPECT_GE(count(10'000, 20'000), 16u) << "and the other shape has their memory";
  expect_sums(pool_, kTestSpanBytes, 0);
  number = 20'000;
  for (int i = 0; i < 5'000; ++i) ASSERT_NE(put(++number, kSmall, ++request), kNoSlot);
  EXPECT_GE(count(20'000, 30'000), 12u * 15) << "and back";
  expect_sums(pool_, kTestSpanBytes, 0);
}

TEST_F(ReclaimTest, ShapesThatAreUsedAlikeLeaveEachOtherAlone) {
  uint64_t request = 0;
  for (uint64_t i = 1; i <= 60; ++i) put(i, kSmall, ++request);
  for (uint64_t i = 0; i < 22; ++i) put(10'000 + i, kMiddle, ++request);
  ASSERT_EQ(pool_.usage().spans_empty, 0u);
  const uint64_t middle = count(10'000, 20'000);
  uint64_t number = 1'000;
  for (int i = 0; i < 400; ++i) {
    for (auto page = slot_of_.lower_bound(10'000); page != slot_of_.end(); ++page)
      pool_.touch(page->second, access_at(page->first, request));
    ASSERT_NE(put(++number, kSmall, ++request), kNoSlot);
  }
  EXPECT_EQ(count(10'000, 20'000), middle) << "pages in constant use aren't drained";
}

TEST_F(ReclaimTest, RandomMixesNeverLoseAByteOrAPage) {
  std::mt19937 random(17);
  const uint64_t sizes[] = {kSmall, 9'000, kMiddle, 65'000, kLarge, 300'000};
  uint64_t refused = 0;
  for (uint64_t step = 1; step <= 12'000; ++step) {
    const uint64_t page = sizes[(random() + step / 1'500) % (random() % 6 + 1)];
    refused += put(step, page, step) == kNoSlot;
    if (random() % 4 == 0 && !slot_of_.empty()) {
      const auto it = any_page(random());
      if (leased_.size() < 6) leased_.insert(it->first);
      pool_.touch(it->second, access_at(it->first, step));
    }
    if (random() % 8 == 0 && !leased_.empty()) leased_.erase(leased_.begin());
    if (random() % 16 == 0 && !slot_of_.empty()) {
      const auto it = any_page(random());
      if (!leased_.contains(it->first)) drop(it->second);
    }
    ASSERT_EQ(pool_.usage().slots_full, pages_.size());
    if (step % 50 != 0) continue;
    expect_sums(pool_, kTestSpanBytes, 0);
    for (const auto& [slot, number] : pages_) {
      const auto record = pool_.record(slot);
      ASSERT_TRUE(record.ok());
      ASSERT_EQ(record->hash.low, number);
      ASSERT_TRUE(holds_page(pool_, slot, number, record->page_bytes)) << "step " << step;
    }
  }
  EXPECT_LT(refused, 1'200u) << "pages of five spans may find no room between leases";
}

}  // namespace
}  // namespace kvsidecar
