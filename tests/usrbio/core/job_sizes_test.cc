// SPDX-License-Identifier: Apache-2.0
// Goal: what is queued becomes jobs by the real daemon's rules, stalls included. Method: the pure
// function, by numbers.
#include "tests/usrbio/core/job_sizes.h"

#include <gtest/gtest.h>

namespace kvsidecar::fake3fs {
namespace {

using Sizes = std::vector<uint32_t>;
constexpr uint32_t kPlenty = 1000;

TEST(JobSizes, DepthZeroTakesAllAsOneJob) {
  EXPECT_EQ(job_sizes({.io_depth = 0}, 7, kPlenty), Sizes({7}));
  EXPECT_EQ(job_sizes({.io_depth = 0}, 0, kPlenty), Sizes());
}

TEST(JobSizes, APositiveDepthLeavesTheRemainder) {
  EXPECT_EQ(job_sizes({.io_depth = 4}, 6, kPlenty), Sizes({4}));
  EXPECT_EQ(job_sizes({.io_depth = 4}, 8, kPlenty), Sizes({4, 4}));
  EXPECT_EQ(job_sizes({.io_depth = 4}, 3, kPlenty), Sizes());
}

TEST(JobSizes, ANegativeDepthIsAMost) {
  EXPECT_EQ(job_sizes({.io_depth = -4}, 6, kPlenty), Sizes({4, 2}));
  EXPECT_EQ(job_sizes({.io_depth = -1}, 3, kPlenty), Sizes({1, 1, 1}));
  EXPECT_EQ(job_sizes({.io_depth = INT32_MIN}, 3, kPlenty), Sizes({3}));
}

TEST(JobSizes, ANegativeDepthWithATimeoutNeverTakesAPartialBatch) {
  EXPECT_EQ(job_sizes({.io_depth = -4, .timeout_ms = 1}, 6, kPlenty), Sizes({4}));
  EXPECT_EQ(job_sizes({.io_depth = -4, .timeout_ms = 1}, 3, kPlenty), Sizes());
  EXPECT_EQ(job_sizes({.io_depth = 0, .timeout_ms = 1}, 3, kPlenty), Sizes({3}))
      << "depth 0 doesn't use its timeout";
}

TEST(JobSizes, NeverTakeMoreThanThereAreFreeCompletions) {
  EXPECT_EQ(job_sizes({.io_depth = 0}, 7, 5), Sizes({5}));
  EXPECT_EQ(job_sizes({.io_depth = -4}, 7, 5), Sizes({4, 1}));
  EXPECT_EQ(job_sizes({.io_depth = 4}, 8, 7), Sizes({4})) << "the second would not be whole";
  EXPECT_EQ(job_sizes({.io_depth = 0}, 7, 0), Sizes());
}

TEST(JobSizes, OneScanTakesAtMost32Jobs) {
  EXPECT_EQ(job_sizes({.io_depth = -1}, 100, kPlenty).size(), 32u);
  EXPECT_EQ(job_sizes({.io_depth = 2}, 100, kPlenty), Sizes(32, 2));
}

}  // namespace
}  // namespace kvsidecar::fake3fs
