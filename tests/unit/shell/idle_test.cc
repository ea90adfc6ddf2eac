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

void sleep_often(IdlePolicy& idle, uint32_t times, uint64_t each_ns) {
  for (uint32_t i = 0; i < times; ++i) idle.slept(each_ns);
}

// O8-07
TEST(IdlePolicy, AnAdaptiveOneStopsLookingOnWhereThatLeadsToNothing) {
  IdlePolicy idle(100, true);
  EXPECT_FALSE(idle.should_sleep(1000));
  sleep_often(idle, AdaptiveSpin::kFruitlessMax, 50'000);
  idle.worked();
  EXPECT_TRUE(idle.should_sleep(2000));
}

TEST(IdlePolicy, AnAdaptiveOneLooksOnAgainAfterSleepsThatItWouldHaveSaved) {
  IdlePolicy idle(100, true);
  sleep_often(idle, AdaptiveSpin::kFruitlessMax, 50'000);
  sleep_often(idle, AdaptiveSpin::kShortMin - 1, 120);
  EXPECT_TRUE(idle.should_sleep(2000));
  idle.slept(120);
  idle.worked();
  EXPECT_FALSE(idle.should_sleep(3000));
  EXPECT_TRUE(idle.should_sleep(3100));
}

TEST(IdlePolicy, AFewLongSleepsBetweenShortOnesChangeNothing) {
  IdlePolicy idle(100, true);
  sleep_often(idle, AdaptiveSpin::kFruitlessMax - 1, 50'000);
  idle.slept(120);
  sleep_often(idle, AdaptiveSpin::kFruitlessMax - 1, 50'000);
  EXPECT_FALSE(idle.should_sleep(2000));
}

TEST(IdlePolicy, OneThatWasTimedByTheConfigurationAlwaysLooksOn) {
  IdlePolicy idle(100);
  sleep_often(idle, 10, 50'000);
  idle.worked();
  EXPECT_FALSE(idle.should_sleep(2000));
}

}  // namespace
}  // namespace kvsidecar
