// SPDX-License-Identifier: Apache-2.0
// Goal: the set of restorable prefixes is the intersection over the pools, not the minimum of
// boundaries. Method: the pure function on small hand-made cases, and against a slow definition on
// random ones.
#include <gtest/gtest.h>

#include "sidecar/conductor/lookups.h"
#include "tests/support/fakes.h"

namespace kvsidecar {
namespace {

std::vector<int> lengths(const std::vector<PoolPresence>& pools, uint32_t keys,
                         uint32_t* longest = nullptr) {
  std::vector<uint8_t> bits;
  const uint32_t best = restorable_prefixes(pools, keys, bits);
  if (longest != nullptr) *longest = best;
  std::vector<int> out;
  for (uint32_t i = 0; i < keys; ++i)
    if ((bits[i / 8] >> (i % 8) & 1) != 0) out.push_back(static_cast<int>(i) + 1);
  return out;
}

TEST(Restorable, AllPagesStopsAtTheFirstHole) {
  EXPECT_EQ(lengths({{HitPolicy::kAllPages, 0, {1, 1, 0, 1}}}, 4), (std::vector<int>{1, 2}));
}

TEST(Restorable, TrailingPagesNeedsOnlyTheLastOnes) {
  EXPECT_EQ(lengths({{HitPolicy::kTrailingPages, 1, {0, 1, 0, 1}}}, 4), (std::vector<int>{2, 4}));
  EXPECT_EQ(lengths({{HitPolicy::kTrailingPages, 2, {1, 0, 1, 1}}}, 4), (std::vector<int>{1, 4}));
}

TEST(Restorable, PoolsIntersectAsSets) {
  uint32_t longest = 0;
  const std::vector<PoolPresence> pools = {{HitPolicy::kAllPages, 0, {1, 1, 1, 0}},
                                           {HitPolicy::kTrailingPages, 1, {0, 1, 0, 1}}};
  EXPECT_EQ(lengths(pools, 4, &longest), (std::vector<int>{2}));
  EXPECT_EQ(longest, 2u);
}

TEST(Restorable, NothingPresentIsNothingRestorable) {
  uint32_t longest = 7;
  EXPECT_TRUE(lengths({{HitPolicy::kAllPages, 0, {0, 0}}}, 2, &longest).empty());
  EXPECT_EQ(longest, 0u);
}

TEST(Restorable, AgreesWithItsDefinitionOnRandomPresence) {
  testing::SeededRandom random(3);
  for (int round = 0; round < 500; ++round) {
    const auto keys = static_cast<uint32_t>(1 + random.below(20));
    std::vector<PoolPresence> pools(1 + random.below(3));
    for (PoolPresence& pool : pools) {
      pool.policy = random.one_in(2) ? HitPolicy::kAllPages : HitPolicy::kTrailingPages;
      pool.pages = static_cast<uint32_t>(1 + random.below(4));
      for (uint32_t i = 0; i < keys; ++i) pool.present.push_back(random.one_in(4) ? 0 : 1);
    }
    std::vector<int> expected;
    for (uint32_t length = 1; length <= keys; ++length) {
      bool all = true;
      for (const PoolPresence& pool : pools) {
        const uint32_t needed =
            pool.policy == HitPolicy::kAllPages ? length : std::min(pool.pages, length);
        for (uint32_t i = length - needed; i < length; ++i) all &= pool.present[i] != 0;
      }
      if (all) expected.push_back(static_cast<int>(length));
    }
    EXPECT_EQ(lengths(pools, keys), expected);
  }
}

}  // namespace
}  // namespace kvsidecar
