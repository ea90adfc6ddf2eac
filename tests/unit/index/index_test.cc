// SPDX-License-Identifier: Apache-2.0
// Goal: the index finds exactly the pages that are in it, ids stay stable, and its memory stays
// under 64 bytes a page at every size. Method: random operations beside std::map; hashes that
// crowd.
#include "sidecar/index/index.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
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

TEST(Index, EntriesInHugePagesAreAsStableAndCountedAsOthers) {
  constexpr uint64_t kPages = (1u << 20) + 3 * 4'096 + 5;  // into the first block of them
  Index index;
  index.reserve(kPages);
  for (uint64_t i = 0; i < kPages; ++i) index[index.insert(Hash128{i, ~i})].digest = i;
  for (uint64_t i = 0; i < kPages; i += i < kPages - 30'000 ? 997 : 1) {
    const EntryId id = index.find(Hash128{i, ~i});
    ASSERT_NE(id, kNoEntry) << i;
    ASSERT_EQ(index[id].digest, i);
    ASSERT_EQ(index[id].host_slot, kNowhere);
  }
  EXPECT_LE(index.memory_bytes(), kPages * 64);
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

IndexSpot spot_at(uint32_t place, uint8_t tag) {
  return {uint64_t{place} << 32 | uint64_t{tag} << 24};
}

// A shard whose pages are where the test puts them.
struct CrowdedShard {
  IndexShard shard;
  std::map<EntryId, IndexSpot> model;

  void insert(EntryId id, const IndexSpot& spot) {
    if (shard.full()) grow(shard.lines_after_growth());
    shard.insert(spot, id);
    model[id] = spot;
  }
  void grow(uint32_t lines) {
    std::set<EntryId> announced;
    const auto spot_of = [&](EntryId id) {
      EXPECT_EQ(announced.count(id), 1u) << "not sent for before it was asked";
      return model.at(id);
    };
    shard.grow(lines, spot_of, [&](EntryId id) { announced.insert(id); });
  }
  void erase(EntryId id) {
    shard.erase(model.at(id), id);
    model.erase(id);
  }
  bool finds(EntryId id, const IndexSpot& spot) const {
    return shard.find(spot, [id](EntryId seen) { return seen == id; }) == id;
  }
  void expect_all() const {
    for (const auto& [id, spot] : model) ASSERT_TRUE(finds(id, spot)) << id;
  }
};

TEST(IndexShard, ManyPagesAtOneSpotAreAllKept) {
  for (const uint32_t place : {0u, 1u, 0x80000000u, 0xffffffffu}) {
    CrowdedShard crowd;
    const IndexSpot spot = spot_at(place, 0xab);
    for (EntryId id = 0; id < 500; ++id) crowd.insert(id, spot);
    crowd.expect_all();
    for (EntryId id = 0; id < 500; id += 2) crowd.erase(id);
    crowd.expect_all();
    for (EntryId id = 0; id < 500; id += 2) EXPECT_FALSE(crowd.finds(id, spot)) << place;
  }
}

TEST(IndexShard, ASearchEndsWhereNothingHasPassed) {
  CrowdedShard crowd;
  crowd.grow(8);
  const IndexSpot last = spot_at(0xffffffffu, 1);
  for (EntryId id = 0; id < 30; ++id) crowd.insert(id, last);  // goes round to the first lines
  EXPECT_EQ(crowd.shard.first_line(last)->passed, 18u);
  EXPECT_EQ(crowd.shard.first_line(spot_at(0, 1))->passed, 6u);
  const auto looks = [&](const IndexSpot& spot) {
    int seen = 0;
    (void)crowd.shard.find(spot, [&](EntryId) {
      ++seen;
      return false;
    });
    return seen;
  };
  EXPECT_EQ(looks(last), 30);
  EXPECT_EQ(looks(spot_at(0xffffffffu, 2)), 0) << "another tag is passed without a look";
  EXPECT_EQ(looks(spot_at(0x80000000u, 1)), 0);
  for (EntryId id = 0; id < 30; ++id) crowd.erase(id);
  EXPECT_EQ(crowd.shard.first_line(last)->passed, 0u);
  EXPECT_EQ(crowd.shard.first_line(spot_at(0, 1))->passed, 0u);
}

TEST(IndexShard, PagesThatComeAndGoStayReachable) {
  std::mt19937 random(11);
  CrowdedShard crowd;
  for (EntryId id = 0; id < 20'000; ++id) {
    const auto tag = static_cast<uint8_t>(random() % 4);
    crowd.insert(id, spot_at(0xff000000u | static_cast<uint32_t>(random() & 0xffffff), tag));
    if (id % 3 == 0) continue;
    auto victim = crowd.model.lower_bound(static_cast<EntryId>(random() % (id + 1)));
    if (victim != crowd.model.end()) crowd.erase(victim->first);
    if (id % 1'000 == 1) crowd.expect_all();
  }
  crowd.expect_all();
}

TEST(IndexShard, ErasingWhatIsNotThereIsOurOwnBug) {
  CrowdedShard crowd;
  crowd.insert(1, spot_at(7, 7));
  EXPECT_DEATH(crowd.shard.erase(spot_at(7, 7), 2), "check failed");
  EXPECT_DEATH(IndexShard().erase(spot_at(7, 7), 1), "check failed");
}

}  // namespace
}  // namespace kvsidecar
