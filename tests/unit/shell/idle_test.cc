// SPDX-License-Identifier: Apache-2.0
// Goal: the conductor looks on for the configured time after its last work, then sleeps. Method:
// made-up times.
#include "sidecar/shell/idle.h"

#include <gtest/gtest.h>

namespace kvsidecar {
namespace {

TEST(IdlePolicy, WithoutSpinItSleepsAtOnce) { EXPECT_TRUE(IdlePolicy(0).should_sleep(5)); }

TEST(IdlePolicy, ItLooksOnForTheSpinTimeAndAgainAfterWork) {
  IdlePolicy idle(100);
  EXPECT_FALSE(idle.should_sleep(1000));
  EXPECT_FALSE(idle.should_sleep(1099));
  EXPECT_TRUE(idle.should_sleep(1100));
  idle.worked();
  EXPECT_FALSE(idle.should_sleep(1101));
  EXPECT_TRUE(idle.should_sleep(1201));
}

// O8-07
TEST(IdlePolicy, OnFewCoresItDoesNotSpin) {
  EXPECT_EQ(IdlePolicy::automatic_spin_ns(2), 0u);
  EXPECT_GT(IdlePolicy::automatic_spin_ns(8), 0u);
}

}  // namespace
}  // namespace kvsidecar
