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

void sleep_often(IdlePolicy& idle, uint64_t each_ns) {
  for (int i = 0; i < 10; ++i) idle.slept(each_ns);
}

// O8-07
TEST(IdlePolicy, AnAdaptiveOneStopsLookingOnWhereThatLeadsToNothing) {
  IdlePolicy idle(100, true);
  EXPECT_FALSE(idle.should_sleep(1000));
  sleep_often(idle, 50'000);
  idle.worked();
  EXPECT_TRUE(idle.should_sleep(2000));
}

TEST(IdlePolicy, AnAdaptiveOneLooksOnAgainAfterASleepThatItWouldHaveSaved) {
  IdlePolicy idle(100, true);
  sleep_often(idle, 50'000);
  idle.slept(120);
  idle.worked();
  EXPECT_FALSE(idle.should_sleep(2000));
  EXPECT_TRUE(idle.should_sleep(2100));
}

TEST(IdlePolicy, OneThatWasTimedByTheConfigurationAlwaysLooksOn) {
  IdlePolicy idle(100);
  sleep_often(idle, 50'000);
  idle.worked();
  EXPECT_FALSE(idle.should_sleep(2000));
}

}  // namespace
}  // namespace kvsidecar
