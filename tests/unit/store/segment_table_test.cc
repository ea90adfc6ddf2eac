// SPDX-License-Identifier: Apache-2.0
// Goal: CLOCK over segments, sums of bytes, numbers that may be used again. Method: small tables
// worked by hand.
#include "sidecar/store/segment_table.h"

#include <gtest/gtest.h>

namespace kvsidecar {
namespace {

TEST(SegmentTable, SumsWhatIsAddedAndForgetsItWithTheSegment) {
  SegmentTable table(1000);
  table.add({1, 0}, 10, 300);
  table.add({1, 3}, 11, 300);
  table.add({2, 0}, 12, 300);
  EXPECT_EQ(table.used_bytes(), 900u);
  EXPECT_FALSE(table.over_capacity());
  table.add({2, 1}, 13, 300);
  EXPECT_TRUE(table.over_capacity());
  const auto& entries = table.entries(table.number(1));
  ASSERT_EQ(entries.size(), 4u);
  EXPECT_EQ(entries[0], 10u);
  EXPECT_EQ(entries[1], kNoEntry);
  EXPECT_EQ(entries[3], 11u);
  table.erase(table.number(1));
  EXPECT_EQ(table.used_bytes(), 600u);
  EXPECT_EQ(table.segments(), 1u);
}

TEST(SegmentTable, ARemovedPageKeepsItsBytesUntilTheSegmentGoes) {
  SegmentTable table(1000);
  table.add({1, 0}, 10, 300);
  table.remove(table.number(1), 0);
  table.remove(table.number(1), 77);
  EXPECT_EQ(table.entries(table.number(1))[0], kNoEntry);
  EXPECT_EQ(table.used_bytes(), 300u);
}

TEST(SegmentTable, AWholeSegmentMayCountForMoreThanItsPages) {
  SegmentTable table(1000);
  table.add({1, 0}, 10, 0);
  table.add({2, 0}, 11, 300);
  table.set_bytes(table.number(1), 800);
  EXPECT_EQ(table.used_bytes(), 1100u);
  EXPECT_TRUE(table.over_capacity());
  table.erase(table.number(1));
  EXPECT_EQ(table.used_bytes(), 300u);
}

TEST(SegmentTable, ASegmentThatLostItsLastPageIsDeadOnceItIsClosedAndNotWanted) {
  SegmentTable table(1000);
  const auto nobody = [](uint64_t) { return false; };
  table.add({1, 0}, 10, 300);
  table.add({1, 1}, 11, 300);
  table.add({2, 0}, 12, 300);
  table.remove(table.number(1), 0);
  EXPECT_EQ(table.dead(nobody), kNowhere);
  table.remove(table.number(1), 1);
  table.remove(table.number(1), 1);
  table.set_open(1, true);
  EXPECT_EQ(table.dead(nobody), kNowhere);
  table.set_open(1, false);
  EXPECT_EQ(table.dead([](uint64_t segment) { return segment == 1; }), kNowhere);
  EXPECT_EQ(table.segment(table.dead(nobody)), 1u);
  EXPECT_EQ(table.dead(nobody), kNowhere) << "told twice";
}

TEST(SegmentTable, ASegmentThatGotAnotherPageIsNotDead) {
  SegmentTable table(1000);
  table.add({1, 0}, 10, 300);
  table.remove(table.number(1), 0);
  table.add({1, 1}, 11, 300);
  EXPECT_EQ(table.dead([](uint64_t) { return false; }), kNowhere);
}

TEST(SegmentTable, TheVictimIsTheFirstUntouchedOne) {
  SegmentTable table(1);
  for (uint64_t s = 1; s <= 4; ++s) table.add({s, 0}, 1, 10);
  table.touch(table.number(1));
  table.touch(table.number(3));
  EXPECT_EQ(table.segment(table.victim()), 2u);
  table.erase(table.number(2));
  EXPECT_EQ(table.segment(table.victim()), 4u) << "3 was passed and lost its mark";
  table.erase(table.number(4));
  EXPECT_EQ(table.segment(table.victim()), 1u) << "the second visit finds it untouched";
}

TEST(SegmentTable, AllTouchedStillGivesAVictim) {
  SegmentTable table(1);
  for (uint64_t s = 1; s <= 3; ++s) {
    table.add({s, 0}, 1, 10);
    table.touch(table.number(s));
  }
  EXPECT_NE(table.victim(), kNowhere);
}

TEST(SegmentTable, TheOpenSegmentIsNeverTheVictim) {
  SegmentTable table(1);
  EXPECT_EQ(table.victim(), kNowhere);
  table.add({1, 0}, 1, 10);
  table.set_open(1, true);
  EXPECT_EQ(table.victim(), kNowhere);
  table.set_open(1, false);
  EXPECT_EQ(table.segment(table.victim()), 1u);
}

TEST(SegmentTable, AnErasedNumberIsUsedAgainForAnotherSegment) {
  SegmentTable table(1000);
  table.add({1, 0}, 1, 10);
  const uint32_t number = table.number(1);
  table.erase(number);
  EXPECT_EQ(table.victim(), kNowhere);
  EXPECT_EQ(table.number(9), number);
  EXPECT_EQ(table.segment(number), 9u);
  EXPECT_TRUE(table.entries(number).empty());
}

}  // namespace
}  // namespace kvsidecar
