// SPDX-License-Identifier: Apache-2.0
// Goal: the generated trace has the reference's shape and is the same for the same seed; the
// measures themselves are right.
// Method: a trace small enough to count by hand, and generated ones against the reference numbers.
#include "clients/cli/trace/shape.h"

#include <gtest/gtest.h>

#include "clients/cli/trace/generator.h"

namespace kvsidecar {
namespace {

Trace trace_of(const std::vector<std::vector<uint64_t>>& prompts) {
  Trace trace;
  for (const auto& pages : prompts) trace.requests.push_back({0, 512, 1, pages});
  return trace;
}

TEST(Shape, OfAHandCountedTrace) {
  const Shape shape = measure_shape(trace_of({{0, 1, 2, 3}, {0, 4}, {0, 1, 2, 5}, {0, 4}}));
  EXPECT_EQ(shape.requests, 4u);
  EXPECT_EQ(shape.accesses, 12u);
  // Repeats: 0 three times, 1, 2 and 4 once each.
  EXPECT_DOUBLE_EQ(shape.repeated_share, 6.0 / 12.0);
  EXPECT_DOUBLE_EQ(shape.share_first_2, 2.0 / 4.0);
  EXPECT_DOUBLE_EQ(shape.share_first_4, 0);
  EXPECT_DOUBLE_EQ(shape.pages_mean, 3);
  // Distances, sorted: 0 after 4 = 1; 0 after 1 2 3 = 3; 0 after 1 2 5 = 3; 1 after 2 3 0 4 = 4;
  // 2 after 3 0 4 1 = 4; 4 after 0 1 2 5 = 4.
  EXPECT_EQ(shape.distance_p25, 3u);
  EXPECT_EQ(shape.distance_p50, 4u);
  EXPECT_EQ(shape.distance_p90, 4u);
}

TEST(Shape, OfNothingIsZero) { EXPECT_EQ(measure_shape(Trace{}).accesses, 0u); }

TEST(Generator, OneSeedGivesOneTrace) {
  EXPECT_EQ(pages_of(generate_trace(7, 500)), pages_of(generate_trace(7, 500)));
  EXPECT_NE(pages_of(generate_trace(7, 500)), pages_of(generate_trace(8, 500)));
  // A shorter trace is the beginning of a longer one.
  auto longer = pages_of(generate_trace(7, 500));
  longer.resize(100);
  EXPECT_EQ(pages_of(generate_trace(7, 100)), longer);
}

TEST(Generator, APageNumberStandsForOnePrefix) {
  std::vector<uint64_t> parents;
  for (const auto& pages : pages_of(generate_trace(3, 2000))) {
    uint64_t parent = ~uint64_t{0};
    for (const uint64_t page : pages) {
      if (page >= parents.size()) parents.resize(page + 1, ~uint64_t{1});
      if (parents[page] == ~uint64_t{1}) parents[page] = parent;
      ASSERT_EQ(parents[page], parent);
      parent = page;
    }
  }
}

TEST(Generator, MatchesTheReferenceShape) {
  for (const uint64_t seed : {1u, 2u, 3u}) {
    const Shape shape = measure_shape(generate_trace(seed, 12031));
    const Shape& reference = reference_shape(12031);
    ASSERT_EQ(reference.requests, 12031u);
    EXPECT_NEAR(shape.repeated_share, reference.repeated_share, 0.05);
    EXPECT_NEAR(shape.pages_mean, reference.pages_mean, 3);
    EXPECT_NEAR(shape.share_first_2, reference.share_first_2, 0.05);
    EXPECT_NEAR(shape.share_first_16, reference.share_first_16, 0.05);
    const auto ratio = [](uint64_t a, uint64_t b) {
      return static_cast<double>(a) / static_cast<double>(b);
    };
    EXPECT_NEAR(ratio(shape.pages_p90, reference.pages_p90), 1, 0.2);
    EXPECT_NEAR(ratio(shape.distance_p50, reference.distance_p50), 1, 0.35);
    EXPECT_NEAR(ratio(shape.distance_p90, reference.distance_p90), 1, 0.35);
  }
}

TEST(Shape, IsShownBesideTheReferenceOfTheNearestLength) {
  EXPECT_EQ(reference_shape(1).requests, 1000u);
  EXPECT_EQ(reference_shape(3500).requests, 4000u);
  EXPECT_EQ(reference_shape(1000000).requests, 12031u);
  const Shape& reference = reference_shape(4000);
  const std::string table = compare_shapes(measure_shape(generate_trace(1, 4000)), reference);
  EXPECT_NE(table.find("32.6 %"), std::string::npos) << table;
}

}  // namespace
}  // namespace kvsidecar
