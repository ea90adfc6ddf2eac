// SPDX-License-Identifier: Apache-2.0
// Goal: what nobody waits for is written when no copy is out, or a little later all the same.
// Method: the copy worker is stepped by hand, so that a get stays with it.
#include "sidecar/conductor/world.h"
#include "tests/unit/conductor/rig.h"

namespace kvsidecar::testing {
namespace {

// A put of page 2 has ended, a get of page 1 is still with the copy worker.
class WriteBesideCopies : public Rig {
 protected:
  void begin(bool durable) {
    start();
    engine_ = engine();
    ASSERT_EQ(put(*engine_, 1), Code::kOk);
    ASSERT_TRUE(node->settle());
    begin_put(*engine_, 2, durable);
    node->step();
    engine_->get({}, {1}, engine_->layout, {1});
    node->conductor().step();
    ASSERT_EQ(count(&Counters::bytes_put), 2 * kPage);
    ASSERT_EQ(count(&Counters::bytes_get), 0u);
  }
  std::unique_ptr<Engine> engine_;
};

TEST_F(WriteBesideCopies, LetsThemGoFirst) {
  begin(false);
  EXPECT_EQ(spy->written, (std::vector<int>{1}));
  ASSERT_TRUE(node->settle());
  EXPECT_EQ(spy->written, (std::vector<int>{1, 2}));
}

TEST_F(WriteBesideCopies, GoesAllTheSameWhenTheyDoNotEnd) {
  begin(false);
  clock.advance_ns(20'000'000);
  node->conductor().step();
  EXPECT_EQ(spy->written, (std::vector<int>{1, 2}));
  ASSERT_TRUE(node->settle());
}

TEST_F(WriteBesideCopies, GoesAtOnceWhenAPutWaitsForIt) {
  begin(true);
  EXPECT_EQ(spy->written, (std::vector<int>{1, 2}));
  ASSERT_TRUE(node->settle());
}

}  // namespace
}  // namespace kvsidecar::testing
