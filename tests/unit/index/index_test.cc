// SPDX-License-Identifier: Apache-2.0
// Goal: the index finds exactly the pages that are in it, ids stay stable, and its memory stays
// under 64 bytes a page at every size. Method: random operations beside std::map; hashes that
// crowd.
#include "sidecar/index/index.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "sidecar/index/index_shard.h"

namespace kvsidecar {
namespace {

TEST(Index, AnEmptyIndexFindsNothing) {
  const Index index;
  EXPECT_EQ(index.find(Hash128{1, 2}), kNoEntry);
  const Hash128 hashes[2] = {{0, 0}, {~0ull, ~0ull}};
  EntryId found[2] = {0, 0};
  index.find(hashes, found);
  EXPECT_EQ(found[0], kNoEntry);
  EXPECT_EQ(found[1], kNoEntry);
  EXPECT_EQ(index.size(), 0u);
}

TEST(Index, ANewEntryHoldsItsHashAndNothingElse) {
  Index index;
  const EntryId first = index.insert(Hash128{1, 1});
  index[first].host_slot = 7;
  index[first].pins = 3;
  index.erase(first);
  const EntryId again = index.insert(Hash128{2, 2});
  EXPECT_EQ(again, first) << "a free entry is used again";
  EXPECT_EQ(index[again].hash, (Hash128{2, 2}));
  EXPECT_EQ(index[again].host_slot, kNowhere);
  EXPECT_EQ(index[again].segment, kNowhere);
  EXPECT_EQ(index[again].pins, 0u);
  EXPECT_EQ(index[again].digest, 0u);
}

TEST(Index, BehavesLikeAMapUnderRandomInsertsAndErasures) {
  std::mt19937_64 random(7);
  Index index;
  std::map<Hash128, EntryId> model;
  std::vector<Hash128> known;
  for (int step = 0; step < 60'000; ++step) {
    if (step % 20'000 < 14'000 || known.empty()) {
      const Hash128 hash{random(), random()};
      const EntryId id = index.insert(hash);
      ASSERT_TRUE(model.emplace(hash, id).second);
      known.push_back(hash);
    } else {
      const size_t victim = random() % known.size();
      index.erase(model.at(known[victim]));
      model.erase(known[victim]);
      known[victim] = known.back();
      known.pop_back();
    }
  }
  ASSERT_EQ(index.size(), model.size());
  for (const auto& [hash, id] : model) {
    ASSERT_EQ(index.find(hash), id);
    ASSERT_EQ(index[id].hash, hash);
    ASSERT_EQ(index.find(Hash128{hash.low, hash.high + 1}), kNoEntry);
  }
}

TEST(Index, ABatchFindsWhatSingleLookupsFind) {
  std::mt19937_64 random(3);
  Index index;
  std::vector<Hash128> hashes;
  for (int i = 0; i < 5'000; ++i) {
    hashes.push_back({random(), random()});
    if (i % 3 != 0) index.insert(hashes.back());
  }
  for (const size_t count : {0u, 1u, 31u, 32u, 33u, 512u, 5'000u}) {
    std::vector<EntryId> found(count, 12345);
    index.find(std::span(hashes).first(count), found);
    for (size_t i = 0; i < count; ++i) ASSERT_EQ(found[i], index.find(hashes[i])) << i;
  }
}

TEST(Index, HashesThatDifferInAFewBitsOnlyAreNoTrouble) {
  Index index;
  for (uint64_t i = 0; i < 20'000; ++i) {
    index.insert(Hash128{i, 0});
    index.insert(Hash128{0, (i + 1) << 40});
  }
  for (uint64_t i = 0; i < 20'000; ++i) {
    ASSERT_NE(index.find(Hash128{i, 0}), kNoEntry);
    ASSERT_NE(index.find(Hash128{0, (i + 1) << 40}), kNoEntry);
    ASSERT_EQ(index.find(Hash128{i, i + 1}), kNoEntry);
  }
}

TEST(Index, InsertingAPageTwiceIsOurOwnBug) {
  Index index;
  index.insert(Hash128{5, 5});
  EXPECT_DEATH(index.insert(Hash128{5, 5}), "check failed");
}

TEST(Index, TakesAtMost64BytesAPageAtEverySizeFrom100kOn) {
  std::mt19937_64 random(1);
  Index index;
  uint64_t worst = 0;
  for (uint64_t pages = 1; pages <= 400'000; ++pages) {
    index.insert(Hash128{random(), random()});
    if (pages < 100'000 || pages % 101 != 0) continue;
    worst = std::max(worst, index.memory_bytes() * 100 / pages);
    ASSERT_LE(index.memory_bytes(), pages * 64) << pages << " pages";
  }
  RecordProperty("worst_hundredths_of_a_byte_a_page", std::to_string(worst));
}

TEST(Index, ReservedPagesNeedNoGrowthAndKeepTheBound) {
  std::mt19937_64 random(2);
  Index index;
  index.reserve(200'000);
  const uint64_t before = index.memory_bytes();
  uint64_t entry_chunks = 0;
  for (int i = 0; i < 200'000; ++i) index.insert(Hash128{random(), random()});
  entry_chunks = (200'000 + 4'095) / 4'096 * 4'096 * 48;
  EXPECT_LE(index.memory_bytes(), before + entry_chunks + 200'000 / 10)
      << "buckets were there already";
  EXPECT_LE(index.memory_bytes(), 200'000u * 64);
}

TEST(IndexShard, ManyPagesWithOneTagAreAllKept) {
  for (const uint32_t tag : {0u, 1u, 0x80000000u, 0xffffffffu}) {
    IndexShard shard;
    for (EntryId id = 0; id < 500; ++id) shard.insert(tag, id);
    std::vector<bool> seen(500);
    uint32_t at = shard.home(tag);
    for (EntryId id; (id = shard.next(at, tag)) != kNoEntry; ++at) seen[id] = true;
    EXPECT_EQ(std::count(seen.begin(), seen.end(), true), 500) << tag;
    for (EntryId id = 0; id < 500; id += 2) shard.erase(tag, id);
    uint32_t left = 0;
    at = shard.home(tag);
    for (EntryId id; (id = shard.next(at, tag)) != kNoEntry; ++at, ++left) EXPECT_EQ(id % 2, 1u);
    EXPECT_EQ(left, 250u) << tag;
  }
}

TEST(IndexShard, ErasureLeavesNeighboursReachable) {
  std::mt19937 random(11);
  IndexShard shard;
  std::map<uint32_t, EntryId> model;  // distinct tags, crowded at the array's end
  for (EntryId id = 0; id < 3'000; ++id) {
    const uint32_t tag = 0xff000000u | static_cast<uint32_t>(random() & 0xffffff);
    if (!model.emplace(tag, id).second) continue;
    shard.insert(tag, id);
    if (id % 3 != 0) continue;
    const auto victim = model.lower_bound(0xff000000u | static_cast<uint32_t>(random() & 0xffffff));
    if (victim == model.end()) continue;
    shard.erase(victim->first, victim->second);
    model.erase(victim);
  }
  for (const auto& [tag, id] : model) {
    uint32_t at = shard.home(tag);
    ASSERT_EQ(shard.next(at, tag), id);
  }
}

}  // namespace
}  // namespace kvsidecar
