// SPDX-License-Identifier: Apache-2.0
// Goal: parts whose other parts don't come hold neither the pool nor the place of whole pages.
// Method: one rank of two puts without end into a small pool; whole pages of the same size.
#include "sidecar/conductor/world.h"
#include "tests/unit/conductor/rig.h"

namespace kvsidecar::testing {
namespace {

class LonelyParts : public Rig {
 protected:
  LonelyParts() { with_store = false; }
  void SetUp() override { start(); }
  // More than the pool holds.
  void flood(Engine& rank) {
    for (uint64_t key = 1000; key < 1040; ++key) {
      clock.advance_ns(1000);
      ASSERT_EQ(put(rank, key), Code::kOkPart) << key;
    }
  }
  uint64_t share() const { return node->conductor().world().lonely_bytes; }
};

TEST_F(LonelyParts, TheOldestGiveWayToAPutThatNeedsRoom) {
  auto rank0 = engine(fields_of(kPage, 2)), whole = engine(fields_of(2 * kPage));
  flood(*rank0);
  EXPECT_GT(count(&Counters::pages_dropped_parts), 0u);
  EXPECT_EQ(put(*whole, 1), Code::kOk);
  AttachRequest second;
  second.coordinate = {1, 0, 0, 0};
  auto rank1 = engine(fields_of(kPage, 2), second);
  fill_page(rank1->block(0), 1039, 1);
  EXPECT_EQ(rank1->wait(rank1->put({}, {1039}, rank1->layout, {0})).items[0], Code::kOk)
      << "the youngest is still there";
  EXPECT_EQ(rank1->wait(rank1->put({}, {1000}, rank1->layout, {0})).items[0], Code::kOkPart)
      << "the oldest has gone";
}

TEST_F(LonelyParts, WholePagesKeepMostOfThePool) {
  auto whole = engine(fields_of(2 * kPage));
  int put_pages = 0;
  for (uint64_t key = 0; count(&Counters::pages_evicted) == 0; ++key, ++put_pages)
    ASSERT_EQ(put(*whole, key), Code::kOk);
  auto rank0 = engine(fields_of(kPage, 2));
  flood(*rank0);
  EXPECT_LE(share(), node->pool().usage().bytes / 4 + 2 * kPage);
  EXPECT_GE(node->pool().usage().slots_full, static_cast<uint64_t>(put_pages) / 2);
}

TEST_F(LonelyParts, WhatIsCountedIsWhatIsThere) {
  auto rank0 = engine(fields_of(kPage, 2));
  ASSERT_EQ(put(*rank0, 1), Code::kOkPart);
  ASSERT_EQ(put(*rank0, 2), Code::kOkPart);
  EXPECT_EQ(share(), 4 * kPage);
  ASSERT_EQ(erase(*rank0, 1), Code::kMiss);  // no page, and its part goes
  EXPECT_EQ(share(), 2 * kPage);
  const uint64_t waiting = rank0->put({}, {2}, rank0->layout, {0});  // OK_PART already
  EXPECT_EQ(rank0->wait(waiting).items[0], Code::kOkPart);
  EXPECT_EQ(share(), 2 * kPage);
  clock.advance_ns(Limits{}.parts_timeout_ns + 1'000'000'000);
  ASSERT_TRUE(node->settle());
  EXPECT_EQ(share(), 0u);
  EXPECT_EQ(node->pool().usage().slots_filling, 0u);
}

}  // namespace
}  // namespace kvsidecar::testing
