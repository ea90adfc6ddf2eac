// SPDX-License-Identifier: Apache-2.0
// Goal: the arithmetic under the client is right at its edges. Method: claim pool, splitting and
// staging are called directly; what goes out must come back, and no limit is passed.
#include <gtest/gtest.h>

#include <numeric>

#include "clients/cpp/claim_pool.h"
#include "clients/cpp/split.h"
#include "clients/cpp/staging.h"
#include "ipc/codec.h"

namespace kvsidecar::clientlib {
namespace {

TEST(ClaimPool, LendsAllOrNothingAndNeverTheSameWordTwice) {
  ClaimPool pool(8);
  std::vector<uint32_t> first, second, third;
  ASSERT_TRUE(pool.take(5, first));
  EXPECT_FALSE(pool.take(4, second));
  EXPECT_EQ(3u, pool.free());
  ASSERT_TRUE(pool.take(3, second));
  std::vector<uint32_t> all = first;
  all.insert(all.end(), second.begin(), second.end());
  std::sort(all.begin(), all.end());
  std::vector<uint32_t> expected(8);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(expected, all);
  EXPECT_FALSE(pool.take(1, third));
}

TEST(ClaimPool, AWordRestsBehindAllOthersBeforeItIsLentAgain) {
  ClaimPool pool(4);
  std::vector<uint32_t> words, next;
  ASSERT_TRUE(pool.take(1, words));
  pool.give_back(words);
  ASSERT_TRUE(pool.take(3, next));
  EXPECT_EQ(next.end(), std::find(next.begin(), next.end(), words[0]));
}

TEST(Split, ARecordNeverPassesItsItemsOrItsBytes) {
  for (const uint32_t key_bytes : {1u, 16u, 32u, 64u}) {
    const ItemCosts costs{key_bytes, false, {}, {}};
    uint32_t first = 0, records = 0;
    while (first < 10'000) {
      const uint32_t count = items_that_fit(costs, first, 10'000);
      ASSERT_GT(count, 0u);
      EXPECT_LE(count, kItemsMax);
      EXPECT_LE(kRecordOverheadBytes + count * costs.of(first), kRequestBytesMax);
      first += count;
      ++records;
    }
    EXPECT_EQ(10'000u, first);
    EXPECT_EQ((10'000 + items_that_fit(costs, 0, 10'000) - 1) / items_that_fit(costs, 0, 10'000),
              records);
  }
}

TEST(Split, OneLookupOfTwoThousandKeysOf32BytesFits) {
  EXPECT_EQ(2000u, keys_that_fit(32, 0, 2000));
}

TEST(Split, WhatIsSaidToFitEncodesToAtMost64KiB) {
  std::vector<std::byte> keys(64 * kItemsMax);
  std::vector<Block> blocks(kItemsMax);
  const ItemCosts costs{64, false, {}, {}};
  const uint32_t count = items_that_fit(costs, 0, kItemsMax);
  PutRequest put;
  put.keys = {Bytes(keys).first(64 * count), 64};
  put.items.blocks = std::span(blocks).first(count);
  Encoded encoded;
  encode(put, encoded);
  EXPECT_LE(encoded.size(), kRequestBytesMax);
  EXPECT_GT(encoded.size(), kRequestBytesMax - 2 * kRecordOverheadBytes);

  LookupRequest lookup;
  const std::vector<PoolPolicy> pools(kPoolsMax);
  const uint32_t lookup_count = keys_that_fit(64, 0, kItemsMax);
  lookup.keys = {Bytes(keys).first(64 * lookup_count), 64};
  lookup.pools = pools;
  encode(lookup, encoded);
  EXPECT_LE(encoded.size(), kRequestBytesMax);
}

TEST(Split, TheLargestSingleItemGoesAlone) {
  const std::vector<RunItem> items(3, RunItem{0, kRunsMax, 0, 0});
  const std::vector<uint32_t> ends{kDescriptionBytesMax, 2 * kDescriptionBytesMax,
                                   3 * kDescriptionBytesMax};
  const ItemCosts costs{64, true, items, ends};
  EXPECT_LE(kRecordOverheadBytes + costs.of(0), kRequestBytesMax);
  EXPECT_EQ(3u, items_that_fit(costs, 0, 3));
  EXPECT_EQ(1u, items_that_fit(costs, 2, 3));
}

TEST(Staging, FreedNeighboursBecomeOneRangeAgain) {
  StagingSpace space(16 * 4096);
  const auto a = space.take(4096), b = space.take(4097), c = space.take(13 * 4096);
  ASSERT_TRUE(a && b && c);
  EXPECT_EQ(8192u, b->bytes);
  EXPECT_FALSE(space.take(1));
  space.give_back(*a);
  space.give_back(*c);
  EXPECT_FALSE(space.take(14 * 4096));
  space.give_back(*b);
  const auto all = space.take(16 * 4096);
  ASSERT_TRUE(all);
  EXPECT_EQ(0u, all->offset);
}

TEST(Staging, RefusesWhatIsLargerThanItself) {
  StagingSpace space(4096);
  EXPECT_FALSE(space.take(4097));
  EXPECT_FALSE(space.take(0));
}

TEST(Staging, GatherAndScatterKeepThePartsOrder) {
  std::string one = "abc", two = "defgh", staging(8, '.');
  const auto at = [](std::string& s) { return reinterpret_cast<std::byte*>(s.data()); };
  const MemoryPiece pieces[] = {{at(two), 5}, {at(one), 3}};
  gather(pieces, at(staging));
  EXPECT_EQ("defghabc", staging);
  staging = "12345678";
  scatter(at(staging), pieces);
  EXPECT_EQ("12345", two);
  EXPECT_EQ("678", one);
}

}  // namespace
}  // namespace kvsidecar::clientlib
