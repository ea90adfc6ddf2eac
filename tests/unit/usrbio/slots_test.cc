// SPDX-License-Identifier: Apache-2.0
// Goal: a token names one I/O for ever. Method: slots taken, freed and asked for again.
#include "sidecar/store/usrbio/slots.h"

#include <gtest/gtest.h>

namespace kvsidecar::usrbio {
namespace {

TEST(SlotsTest, TheLowestFreeOneIsTaken) {
  Slots slots(130);
  for (uint32_t i = 0; i < 130; ++i) ASSERT_EQ(slots.take(i, 1)->slot, i);
  EXPECT_FALSE(slots.take(0, 1));
  EXPECT_EQ(slots.taken(), 130u);
}

TEST(SlotsTest, AFreedOneIsTakenAgainUnderAnotherToken) {
  Slots slots(2);
  const auto first = *slots.take(7, 70);
  const auto kept = *slots.take(8, 80);
  const auto ended = slots.finish(first.token);
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->user, 7u);
  EXPECT_EQ(ended->bytes, 70u);
  const auto again = *slots.take(9, 90);
  EXPECT_EQ(again.slot, first.slot);
  EXPECT_NE(again.token, first.token);
  EXPECT_FALSE(slots.finish(first.token));
  EXPECT_EQ(slots.finish(kept.token)->user, 8u);
  EXPECT_EQ(slots.finish(again.token)->user, 9u);
}

TEST(SlotsTest, ATokenEndsOnce) {
  Slots slots(1);
  const auto taken = *slots.take(7, 70);
  EXPECT_TRUE(slots.finish(taken.token));
  EXPECT_FALSE(slots.finish(taken.token));
  EXPECT_EQ(slots.taken(), 0u);
}

TEST(SlotsTest, NoTokenIsZeroAndForeignOnesAreNothing) {
  Slots slots(3);
  EXPECT_NE(slots.take(1, 1)->token, 0u);
  for (const uint64_t foreign :
       {uint64_t{0}, uint64_t{3}, UINT64_MAX, uint64_t{1}, uint64_t{1} << 32 | 1})
    EXPECT_FALSE(slots.finish(foreign));
  EXPECT_EQ(slots.taken(), 1u);
}

}  // namespace
}  // namespace kvsidecar::usrbio
