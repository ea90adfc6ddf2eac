// SPDX-License-Identifier: Apache-2.0
// Goal: whatever engines, the store, the device, the clock and kill -9 do, and in whatever order:
// a get gives exactly the bytes that were put, or a miss; memory that is the engine's is not
// touched; every request ends once; nothing leaks; what must be there is there.
// Method: the whole daemon and a few scripted engines in one thread; one seed decides everything;
// a model of what was put (model.h) and invariants of the daemon's state (invariants.h) are checked
// all the time. KVSIDECAR_SIM_SEEDS = how many seeds, KVSIDECAR_SIM_SEED = replay that one.
#include <unistd.h>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <gtest/gtest.h>

#include "tests/sim/simulation.h"

namespace kvsidecar::sim {
namespace {

constexpr uint64_t kSeeds = 1000;

uint64_t number_from(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

char running_seed[64];

// An invariant inside the daemon aborts: say which seed it was.
void name_seed(int) {
  (void)!::write(2, running_seed, std::strlen(running_seed));
  std::signal(SIGABRT, SIG_DFL);
}

Outcome play(uint64_t seed) {
  std::snprintf(running_seed, sizeof running_seed, "KVSIDECAR_SIM_SEED=%llu aborts\n",
                static_cast<unsigned long long>(seed));
  std::signal(SIGABRT, name_seed);
  Outcome outcome = Simulation(seed).run();
  std::signal(SIGABRT, SIG_DFL);
  return outcome;
}

TEST(Simulator, EverySeedIsExactOrMissAndLeavesNothing) {
  const uint64_t replay = number_from("KVSIDECAR_SIM_SEED", 0);
  const uint64_t first = replay != 0 ? replay : 1;
  const uint64_t count = replay != 0 ? 1 : number_from("KVSIDECAR_SIM_SEEDS", kSeeds);
  Outcome all;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const Outcome outcome = play(seed);
    ASSERT_TRUE(outcome.failure.empty()) << outcome.failure;
    all.events += outcome.events;
    all.restarts += outcome.restarts;
    all.writes += outcome.writes;
    all.evicted += outcome.evicted;
  }
  std::printf("%llu seeds, %llu events, %llu page parts put, %llu evicted, %llu restarts\n",
              static_cast<unsigned long long>(count), static_cast<unsigned long long>(all.events),
              static_cast<unsigned long long>(all.writes),
              static_cast<unsigned long long>(all.evicted),
              static_cast<unsigned long long>(all.restarts));
  if (count < 100) return;
  EXPECT_GT(all.restarts, 0u);  // a simulator that does nothing finds nothing
  EXPECT_GT(all.evicted, count);
  EXPECT_GT(all.writes, 50 * count);
}

TEST(Simulator, TheSameSeedIsTheSameRun) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const Outcome once = play(seed), again = play(seed);
    EXPECT_EQ(once.hash, again.hash) << "seed " << seed;
    EXPECT_EQ(once.events, again.events) << "seed " << seed;
    EXPECT_NE(once.hash, play(seed + 1000).hash);
  }
}

}  // namespace
}  // namespace kvsidecar::sim
