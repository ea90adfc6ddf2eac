// SPDX-License-Identifier: Apache-2.0
// Goal: the breaker opens on a stall and on errors in a row, never on slowness, and heals by
// probes. Method: made-up times.
#include "sidecar/store/breaker.h"

#include <gtest/gtest.h>

namespace kvsidecar {
namespace {

Breaker::Limits limits() {
  return {.stall_ns = 100, .errors_in_row = 3, .backoff_ns = 10, .backoff_ns_max = 35};
}

TEST(Breaker, OpensWhenNothingCompletesForTheWholeTime) {
  Breaker breaker(limits());
  EXPECT_FALSE(breaker.watch(1000, 0));
  EXPECT_FALSE(breaker.watch(1099, 1000));
  EXPECT_TRUE(breaker.watch(1100, 1000));
  EXPECT_FALSE(breaker.closed());
}

TEST(Breaker, StaysClosedWhileOthersComplete) {
  Breaker breaker(limits());
  for (uint64_t now = 1000; now < 3000; now += 50) {
    breaker.succeeded(now);
    EXPECT_FALSE(breaker.watch(now + 49, 1000));
  }
}

TEST(Breaker, OpensAfterErrorsInARowOnly) {
  Breaker breaker(limits());
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(breaker.failed(1));
    EXPECT_FALSE(breaker.failed(1));
    breaker.succeeded(1);
  }
  EXPECT_FALSE(breaker.failed(2));
  EXPECT_FALSE(breaker.failed(2));
  EXPECT_TRUE(breaker.failed(2));
}

TEST(Breaker, ProbesAfterABackOffThatDoublesAndHeals) {
  Breaker breaker(limits());
  ASSERT_TRUE(breaker.watch(1100, 1000));
  EXPECT_FALSE(breaker.probe_due(1109));
  EXPECT_TRUE(breaker.probe_due(1110));
  EXPECT_FALSE(breaker.probe_due(1110)) << "one probe at a time";
  EXPECT_FALSE(breaker.probed(1111, false));
  EXPECT_FALSE(breaker.probe_due(1130));
  EXPECT_TRUE(breaker.probe_due(1131));
  EXPECT_FALSE(breaker.probed(1140, false));
  EXPECT_FALSE(breaker.probe_due(1174)) << "at most 35";
  EXPECT_TRUE(breaker.probe_due(1175));
  EXPECT_TRUE(breaker.probed(1180, true));
  EXPECT_TRUE(breaker.closed());
  EXPECT_FALSE(breaker.watch(1279, 1000)) << "time counts from the probe";
}

TEST(Breaker, ALateSuccessWhileOpenProvesNothing) {
  Breaker breaker(limits());
  ASSERT_TRUE(breaker.watch(1100, 1000));
  breaker.succeeded(1101);
  EXPECT_FALSE(breaker.closed());
}

}  // namespace
}  // namespace kvsidecar
