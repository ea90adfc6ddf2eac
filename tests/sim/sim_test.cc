// SPDX-License-Identifier: Apache-2.0
// Goal: whatever engines, the store, the device, the clock and kill -9 do, and in whatever order:
// a get gives exactly the bytes that were put, or a miss; memory that is the engine's is not
// touched; every request ends once; nothing leaks; what must be there is there.
// Method: the whole daemon and a few scripted engines in one thread; one seed decides everything,
// also what the store is like (a third of them as on 3FS, ring_store.h);
// a model of what was put (model.h) and invariants of the daemon's state (invariants.h) are checked
// all the time. KVSIDECAR_SIM_SEEDS = how many seeds from KVSIDECAR_SIM_FIRST on, _SHARD = which
// part of them; KVSIDECAR_SIM_SEED = that one, shrunk when it fails; _MOVES = only these of its
// moves.
#include <unistd.h>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <gtest/gtest.h>

#include "tests/sim/shrink.h"

namespace kvsidecar::sim {
namespace {

constexpr uint64_t kSeeds = KVSIDECAR_SIM_SEEDS_DEFAULT;

uint64_t number_from(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

struct Seeds {
  uint64_t begin, end;
};

// KVSIDECAR_SIM_SHARD=k/n: the k-th of n equal stretches, so that several processes share the
// seeds.
Seeds seeds_of_this_shard() {
  const uint64_t count = number_from("KVSIDECAR_SIM_SEEDS", kSeeds);
  const uint64_t first = number_from("KVSIDECAR_SIM_FIRST", 1);
  const char* const text = std::getenv("KVSIDECAR_SIM_SHARD");
  unsigned shard = 1, shards = 1;
  const bool wrong = text != nullptr && (std::sscanf(text, "%u/%u", &shard, &shards) != 2 ||
                                         shard < 1 || shard > shards);
  if (wrong) ADD_FAILURE() << "KVSIDECAR_SIM_SHARD=" << text << " should be like 1/4";
  if (wrong) return {first, first};
  return {first + count * (shard - 1) / shards, first + count * shard / shards};
}

char running_seed[64];

// An invariant inside the daemon aborts: say which seed it was.
void name_seed(int) {
  (void)!::write(2, running_seed, std::strlen(running_seed));
  std::signal(SIGABRT, SIG_DFL);
}

Outcome play(uint64_t seed) {
  std::snprintf(running_seed, sizeof running_seed, "KVSIDECAR_SIM_SEED=%llu replays it\n",
                static_cast<unsigned long long>(seed));
  std::signal(SIGABRT, name_seed);
  Outcome outcome = Simulation(seed).run();
  std::signal(SIGABRT, SIG_DFL);
  return outcome;
}

// KVSIDECAR_SIM_SEED: that seed once more, all moves or those of KVSIDECAR_SIM_MOVES.
void replay(uint64_t seed) {
  const char* const text = std::getenv("KVSIDECAR_SIM_MOVES");
  if (text == nullptr) {
    const Outcome outcome = play_apart(seed);
    if (!outcome.violation.empty()) FAIL() << shrink(seed, outcome).report();
    return;
  }
  const std::optional<Moves> moves = parse_moves(text);
  ASSERT_TRUE(moves.has_value()) << "KVSIDECAR_SIM_MOVES=" << text << " should be like 0-7,12";
  const Outcome outcome = Simulation(seed, &*moves).run();
  EXPECT_TRUE(outcome.violation.empty()) << outcome.violation << "\n" << outcome.story;
}

void print(const RingCounts& counts) {
  std::printf("stores like USRBIO:");
  for (const RingCount& one : kRingCounts)
    std::printf("%s %llu %s", &one == kRingCounts ? "" : ",",
                static_cast<unsigned long long>(counts.*one.count), one.what);
  std::printf("\n");
}

void expect_every_kind(const RingCounts& counts) {
  for (const RingCount& one : kRingCounts) EXPECT_GT(counts.*one.count, 0u) << one.what;
}

TEST(Simulator, EverySeedIsExactOrMissAndLeavesNothing) {
  if (const uint64_t seed = number_from("KVSIDECAR_SIM_SEED", 0); seed != 0) return replay(seed);
  const Seeds seeds = seeds_of_this_shard();
  const uint64_t count = seeds.end - seeds.begin;
  Outcome all;
  for (uint64_t seed = seeds.begin; seed < seeds.end; ++seed) {
    const Outcome outcome = play(seed);
    if (!outcome.violation.empty()) FAIL() << shrink(seed, outcome).report();
    all.events += outcome.events;
    all.restarts += outcome.restarts;
    all.writes += outcome.writes;
    all.evicted += outcome.evicted;
    all.rings.add(outcome.rings);
  }
  std::printf("%llu seeds, %llu events, %llu page parts put, %llu evicted, %llu restarts\n",
              static_cast<unsigned long long>(count), static_cast<unsigned long long>(all.events),
              static_cast<unsigned long long>(all.writes),
              static_cast<unsigned long long>(all.evicted),
              static_cast<unsigned long long>(all.restarts));
  print(all.rings);
  if (count < 100) return;
  EXPECT_GT(all.restarts, 0u);  // a simulator that does nothing finds nothing
  EXPECT_GT(all.evicted, count);
  EXPECT_GT(all.writes, 50 * count);
  if (count >= 500) expect_every_kind(all.rings);
}

TEST(Simulator, TheSameSeedIsTheSameRun) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const Outcome once = play(seed), again = play(seed);
    EXPECT_EQ(once.hash, again.hash) << "seed " << seed;
    EXPECT_EQ(once.events, again.events) << "seed " << seed;
    EXPECT_NE(once.hash, play(seed + 1000).hash);
    const Moves every = first_moves(once.moves);  // told which, it is the same run again
    EXPECT_EQ(once.hash, Simulation(seed, &every).run().hash) << "seed " << seed;
  }
}

}  // namespace
}  // namespace kvsidecar::sim
