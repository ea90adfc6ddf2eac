// SPDX-License-Identifier: Apache-2.0
// Goal: an idle daemon checks each adopted page once before anybody asks, and never at a request's
// cost. Method: two daemons one after the other over the same memory; the second is left alone, or
// asked, while the test tells the time.
#include "sidecar/conductor/scrub.h"

#include "sidecar/conductor/world.h"
#include "tests/unit/conductor/rig.h"

namespace kvsidecar::testing {
namespace {

class Scrub : public Rig {
 protected:
  Scrub() { with_store = false; }
  // A daemon that adopted the pages 1 … n.
  void adopt(uint64_t n) {
    start();
    auto a = engine();
    for (uint64_t key = 1; key <= n; ++key) ASSERT_EQ(put(*a, key), Code::kOk);
    if (with_store) {
      ASSERT_TRUE(node->settle());
    }
    a.reset();
    stop();
  }
  void idle() {
    ASSERT_TRUE(node->settle());
    clock.advance_ns(kScrubQuietNs);
    ASSERT_TRUE(node->settle());
  }
};

TEST_F(Scrub, AnIdleDaemonChecksEachAdoptedPageOnce) {
  adopt(5);
  start();
  ASSERT_TRUE(node->settle());
  EXPECT_EQ(count(&Counters::pages_scrubbed), 0u) << "it has not been quiet for long enough";
  idle();
  EXPECT_EQ(count(&Counters::pages_scrubbed), 5u);
  EXPECT_EQ(count(&Counters::pages_verified), 5u);
  idle();
  EXPECT_EQ(count(&Counters::pages_scrubbed), 5u);
  auto a = engine();
  for (uint64_t key = 1; key <= 5; ++key) {
    EXPECT_EQ(get(*a, key), Code::kOk);
    EXPECT_TRUE(holds_page(a->block(1), key));
  }
  EXPECT_EQ(count(&Counters::pages_verified), 5u) << "a get checked a page again";
}

TEST_F(Scrub, PagesOfThisEpochAreNotItsBusiness) {
  adopt(1);
  start();
  auto a = engine();
  for (uint64_t key = 2; key <= 5; ++key) ASSERT_EQ(put(*a, key), Code::kOk);
  idle();
  EXPECT_EQ(count(&Counters::pages_scrubbed), 1u);
}

TEST_F(Scrub, ARottenPageIsGoneBeforeAnybodyAsks) {
  adopt(3);
  rot(2);
  start();
  idle();
  EXPECT_EQ(count(&Counters::pages_corrupt), 1u);
  EXPECT_EQ(node->pool().usage().slots_full, 2u);
  auto a = engine();
  EXPECT_EQ(place(*a, 2), Place::kMiss);
  EXPECT_EQ(place(*a, 1), Place::kHost);
  EXPECT_EQ(place(*a, 3), Place::kHost);
}

TEST_F(Scrub, ARottenPageThatIsAlsoStoredStaysThere) {
  with_store = true;
  adopt(2);
  rot(1);
  start();
  idle();
  EXPECT_EQ(count(&Counters::pages_corrupt), 1u);
  auto a = engine();
  EXPECT_EQ(place(*a, 1), Place::kStore);
  EXPECT_EQ(get(*a, 1), Code::kOk);
  EXPECT_TRUE(holds_page(a->block(1), 1));
}

TEST_F(Scrub, RequestsKeepItAway) {
  adopt(4);
  start();
  auto a = engine();
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(place(*a, 1), Place::kHost);
    clock.advance_ns(kScrubQuietNs / 2);
    ASSERT_TRUE(node->settle());
  }
  EXPECT_EQ(count(&Counters::pages_scrubbed), 0u);
  idle();
  EXPECT_EQ(count(&Counters::pages_scrubbed), 4u);
}

TEST_F(Scrub, AFewPagesAreWithTheHashWorkersAtOnceAndARequestStopsTheRest) {
  adopt(8);
  start();
  auto a = engine();
  ASSERT_TRUE(node->settle());
  clock.advance_ns(kScrubQuietNs);
  for (int i = 0; i < 20; ++i) node->conductor().step();  // the hash workers don't move
  EXPECT_EQ(node->conductor().world().fetches.size(), kScrubsInFlight);
  EXPECT_EQ(count(&Counters::pages_scrubbed), kScrubsInFlight);
  EXPECT_EQ(get(*a, 8), Code::kOk);
  ASSERT_TRUE(node->settle());
  EXPECT_EQ(count(&Counters::pages_scrubbed), kScrubsInFlight);
  EXPECT_EQ(count(&Counters::pages_verified), kScrubsInFlight + 1);
}

TEST_F(Scrub, AGetOfAPageThatIsBeingCheckedWaitsForThatCheck) {
  adopt(1);
  start();
  auto a = engine();
  ASSERT_TRUE(node->settle());
  clock.advance_ns(kScrubQuietNs);
  node->conductor().step();
  ASSERT_EQ(count(&Counters::pages_scrubbed), 1u);
  EXPECT_EQ(get(*a, 1), Code::kOk);
  EXPECT_TRUE(holds_page(a->block(1), 1));
  EXPECT_EQ(count(&Counters::pages_verified), 1u);
}

TEST_F(Scrub, ADaemonThatEndsStartsNoCheck) {
  adopt(3);
  start();
  node->conductor().drain();
  idle();
  EXPECT_EQ(count(&Counters::pages_scrubbed), 0u);
  EXPECT_TRUE(node->conductor().drained());
}

}  // namespace
}  // namespace kvsidecar::testing
