// SPDX-License-Identifier: Apache-2.0
// Goal: what Eviction remembers of evicted pages is right and bounded, and its tables grow without
// a step that costs more than what it adds. Method: tags that are made to share a set; every size
// from the least on.
#include "sidecar/index/eviction_ghosts.h"

#include <gtest/gtest.h>

#include <random>

#include "sidecar/index/block_array.h"

namespace kvsidecar {
namespace {

TEST(Ghosts, AnEvictedPageKeepsItsUsesAndItsReturnIsOneMore) {
  Ghosts ghosts(100);
  ghosts.add(7, 3);
  EXPECT_EQ(ghosts.miss(7), 4);
  EXPECT_EQ(ghosts.miss(7), 4);  // asked for again before it was put
  EXPECT_EQ(ghosts.take(7), 4);
  EXPECT_EQ(ghosts.take(7), 0);
  ghosts.add(8, 255);
  EXPECT_EQ(ghosts.take(8), 255);
}

// Tags of one set of a table of the least size: their high nine bits agree.
uint32_t tag_in_set(uint32_t set, uint32_t i) { return set << 23 | i; }

TEST(Ghosts, TheOldestAreForgotten) {
  Ghosts ghosts(4);
  for (uint32_t i = 1; i <= 17; ++i) ghosts.add(tag_in_set(5, i), 1);
  EXPECT_EQ(ghosts.take(tag_in_set(5, 1)), 0);
  EXPECT_EQ(ghosts.take(tag_in_set(5, 2)), 2);
  EXPECT_EQ(ghosts.take(tag_in_set(5, 17)), 2);
}

TEST(Ghosts, GrowingForgetsNothingAndKeepsTheOrder) {
  Ghosts ghosts(4);
  for (uint32_t set = 0; set < Ghosts::kSetsMin; ++set)
    for (uint32_t i = 1; i <= 16; ++i) ghosts.add(tag_in_set(set, i), static_cast<uint8_t>(i));
  ghosts.miss(tag_in_set(7, 3));
  // Odd steps: in the middle of a level, over its end, several levels at once.
  for (const uint32_t slots : {2100u, 3001u, 4096u, 4100u, 9000u, 70'000u}) ghosts.resize(slots);
  EXPECT_EQ(ghosts.miss(tag_in_set(7, 3)), 4);  // counted already
  for (uint32_t set = 0; set < Ghosts::kSetsMin; ++set)
    for (uint32_t i = 1; i <= 16; ++i)
      ASSERT_EQ(ghosts.take(tag_in_set(set, i)), i + 1) << set << " " << i;
}

TEST(Ghosts, AGrownTableForgetsTheOldestOfASetFirst) {
  Ghosts ghosts(4);
  for (uint32_t i = 0; i < 16; ++i) ghosts.add(tag_in_set(5, 2 * i + 1), 1);
  ghosts.resize(4096);  // every set was split: these moved, in order
  ghosts.add(tag_in_set(5, 101), 1);
  EXPECT_EQ(ghosts.take(tag_in_set(5, 1)), 0);
  EXPECT_EQ(ghosts.take(tag_in_set(5, 3)), 2);
  EXPECT_EQ(ghosts.take(tag_in_set(5, 31)), 2);
}

TEST(Ghosts, EveryTagFindsItsSetAtEverySize) {
  Ghosts ghosts(4);
  std::mt19937 engine(1);
  for (uint32_t slots = 2048; slots < 20'000; slots += 4) {
    ghosts.resize(slots);
    const uint32_t tag = static_cast<uint32_t>(engine()) | 1;
    ghosts.add(tag, 3);
    ASSERT_EQ(ghosts.take(tag), 4) << slots;
  }
}

// A pool that fills grows its tables run by run; each step may cost what it adds, and no more. What
// it costs shows in what it moves: pages keep their places, in blocks of the same memory.
TEST(BlockArray, GrowingMovesNothing) {
  BlockArray<uint64_t> array(1);
  array[0] = 7;
  const uint64_t* const first = &array[0];
  for (uint32_t size = 1; size <= 1u << 20; size += 4096) {
    array.resize(size);
    array[size - 1] = size;
    ASSERT_EQ(&array[0], first);
  }
  EXPECT_EQ(array[0], 1u);
  EXPECT_EQ(array[4096], 4097u);
  EXPECT_LE(array.memory_bytes(), (uint64_t{array.size()} + 1024) * sizeof(uint64_t));
  array.resize(3);
  EXPECT_GT(array.size(), 3u) << "it shrank";
}

}  // namespace
}  // namespace kvsidecar
