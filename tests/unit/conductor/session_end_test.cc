// SPDX-License-Identifier: Apache-2.0
// Goal: what a session owns ends with it, at whatever moment it dies, and nobody else notices.
// Method: kill the session after every number of single steps of a put and of a get; look at pool,
// leases and regions afterwards.
#include <gtest/gtest.h>

#include "tests/support/engine.h"

namespace kvsidecar::testing {
namespace {

constexpr uint64_t kPage = 64 * 1024;

TEST(SessionEnd, AtEveryStepOfAPutNothingIsLeft) {
  for (int steps = 0; steps < 60; ++steps) {
    FakeClock clock;
    SeededRandom random(static_cast<uint64_t>(steps) + 1);
    NodeRemains remains;
    Node node({}, remains, clock, random);
    Engine survivor(node, clock, 4ull << 20);
    survivor.set_up(fields_of(kPage), 16);
    {
      Engine victim(node, clock, 4ull << 20);
      victim.set_up(fields_of(kPage), 16);
      victim.put({}, {1, 2, 3}, victim.layout, {0, 1, 2});
      for (int i = 0; i < steps; ++i) node.step_one(random);
      victim.die();
    }
    ASSERT_TRUE(node.settle());
    const HostPool::Usage usage = node.pool().usage();
    EXPECT_EQ(usage.slots_filling, 0u) << "after " << steps << " steps";
    EXPECT_EQ(node.conductor().gauges().sessions, 1u) << "after " << steps << " steps";
    EXPECT_EQ(node.conductor().gauges().pages_indexed, usage.slots_full);
    fill_page(survivor.block(0), 9);
    EXPECT_EQ(survivor.wait(survivor.put({}, {9}, survivor.layout, {0})).items[0], Code::kOk);
  }
}

TEST(SessionEnd, ItsLeasesEndWithIt) {
  FakeClock clock;
  SeededRandom random(1);
  NodeRemains remains;
  Node node({}, remains, clock, random);
  {
    Engine a(node, clock, 4ull << 20);
    a.set_up(fields_of(kPage), 16);
    ASSERT_EQ(a.wait(a.put({}, {1}, a.layout, {0})).items[0], Code::kOk);
    LookupRequest lookup;
    lookup.lease_ms = 5'000;
    EXPECT_NE(a.wait(a.lookup(lookup, {1})).head.handle, 0u);
    EXPECT_EQ(node.conductor().gauges().lease_pages, 1u);
  }
  ASSERT_TRUE(node.settle());
  EXPECT_EQ(node.conductor().gauges().leases, 0u);
  EXPECT_EQ(node.conductor().gauges().lease_pages, 0u);
  EXPECT_EQ(node.conductor().gauges().sessions, 0u);
}

TEST(SessionEnd, AHostileRecordEndsOnlyItsSession) {
  FakeClock clock;
  SeededRandom random(1);
  NodeRemains remains;
  Node node({}, remains, clock, random);
  Engine bad(node, clock, 4ull << 20), good(node, clock, 4ull << 20);
  good.set_up(fields_of(kPage), 16);
  bad.session_memory().submission_head().published.store(1ull << 40);
  ASSERT_TRUE(node.settle());
  EXPECT_FALSE(node.conductor().session_alive(bad.session()));
  EXPECT_TRUE(node.conductor().session_alive(good.session()));
  EXPECT_EQ(good.wait(good.lookup({}, {1})).status(), Code::kOk);
}

TEST(SessionEnd, AFloodWaitsForItsOwnCreditsOnly) {
  FakeClock clock;
  SeededRandom random(1);
  NodeRemains remains;
  Node node({}, remains, clock, random);
  Engine flood(node, clock, 4ull << 20), good(node, clock, 4ull << 20);
  flood.set_up(fields_of(kPage), 16);
  good.set_up(fields_of(kPage), 16);
  for (uint32_t i = 0; i < Engine::kGeometry.submission_cells; ++i) flood.lookup({}, {i});
  ASSERT_TRUE(node.settle());
  for (uint32_t i = 0; i < Engine::kGeometry.submission_cells; ++i)
    flood.lookup({}, {i});  // no answer was read
  ASSERT_TRUE(node.settle());
  EXPECT_TRUE(node.conductor().session_alive(flood.session()));
  EXPECT_EQ(good.wait(good.lookup({}, {1})).status(), Code::kOk);
}

}  // namespace
}  // namespace kvsidecar::testing
