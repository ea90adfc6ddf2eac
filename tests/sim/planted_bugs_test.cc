// SPDX-License-Identifier: Apache-2.0
// Goal: the simulator finds what it is there to find.
// Method: known bugs, planted in a second compilation of the daemon's sources (sidecar/planted.h),
// are switched on one at a time; within a few hundred seeds a promise must be seen broken, not
// merely a check inside the daemon. With all switches off the same seeds pass.
#include <gtest/gtest.h>

#include "tests/sim/planted_bugs.h"
#include "tests/sim/shrink.h"

namespace kvsidecar::sim {
namespace {

constexpr uint64_t kSeedsMax = 300;

struct Planted {
  Bug bug;
  const char* name;
  const char* promise;  // what a report of it says
};

class PlantedBug : public ::testing::TestWithParam<Planted> {
 protected:
  void TearDown() override { plant(Bug::kNone); }
};

bool says(const std::string& violation, const char* promise) {
  return !violation.empty() && violation.find(promise) != std::string::npos;
}

struct Found {
  uint64_t seed = 0;  // 0 = none
  Outcome outcome;
  int otherwise = 0;  // seeds before it that fail in another way
};

// The first seed whose violation says this.
Found find(const char* promise) {
  Found found;
  for (uint64_t seed = 1; seed <= kSeedsMax; ++seed) {
    found.outcome = play_apart(seed);
    if (says(found.outcome.violation, promise)) {
      found.seed = seed;
      return found;
    }
    found.otherwise += !found.outcome.violation.empty();
  }
  return found;
}

TEST_P(PlantedBug, IsFoundAsABrokenPromise) {
  plant(GetParam().bug);
  const Found found = find(GetParam().promise);
  ASSERT_NE(found.seed, 0u) << "not found in " << kSeedsMax << " seeds, " << found.otherwise
                            << " fail in another way";
  std::printf("seed %llu, after %d that fail otherwise: %s\n",
              static_cast<unsigned long long>(found.seed), found.otherwise,
              found.outcome.violation.c_str());
  plant(Bug::kNone);
  for (uint64_t seed = 1; seed <= found.seed; ++seed)
    EXPECT_EQ(play_apart(seed).violation, "") << "seed " << seed;
}

INSTANTIATE_TEST_SUITE_P(
    Each, PlantedBug,
    ::testing::Values(
        Planted{Bug::kSlotReusedInFlight, "SlotReusedInFlight", "bytes that are no page's"},
        Planted{Bug::kVisibleBeforeLastPart, "VisibleBeforeLastPart", "bytes that are no page's"},
        Planted{Bug::kStaleDigest, "StaleDigest", "did not prove itself"},
        Planted{Bug::kLostCompletion, "LostCompletion", "never ended"},
        Planted{Bug::kLeaseOutlivesSession, "LeaseOutlivesSession", "dead session"},
        Planted{Bug::kGetAfterRevoke, "GetAfterRevoke", "changed while it was the engine's"},
        Planted{Bug::kPutAfterAbandon, "PutAfterAbandon", "bytes"},
        Planted{Bug::kAdoptedSlotAtOnce, "AdoptedSlotAtOnce", "bytes that are no page's"},
        Planted{Bug::kClearNotKept, "ClearNotKept", "generation that was cleared"},
        Planted{Bug::kUnprovenPage, "UnprovenPage", "bytes that are no page's"},
        Planted{Bug::kMountLossEndsReads, "MountLossEndsReads", "bytes that are no page's"}),
    [](const auto& instance) { return std::string(instance.param.name); });

// Whose command a second completion ends nobody can tell any more: the daemon stops, and whoever
// restarts it finds its pages again.
TEST(BrokenContract, ACompletionThatComesTwiceStopsTheDaemon) {
  plant(Bug::kDoneTwice);
  const Found found = find("the daemon aborts");
  plant(Bug::kNone);
  ASSERT_NE(found.seed, 0u);
  EXPECT_EQ(found.otherwise, 0);
  EXPECT_TRUE(says(found.outcome.violation, "check failed")) << found.outcome.violation;
}

// The run that is left fails in the same way, is a small part of the first, and replays.
TEST(Shrinking, AFailingSeedBecomesAShortRunThatFailsTheSame) {
  plant(Bug::kGetAfterRevoke);
  const auto [seed, outcome, otherwise] = find("was changed while it was the engine's");
  ASSERT_NE(seed, 0u);
  const Shrunk shrunk = shrink(seed, outcome, 300);
  std::printf("%s\n", shrunk.report().c_str());
  EXPECT_LT(shrunk.moves.size(), shrunk.moves_before / 4);
  const auto moves = parse_moves(text_of(shrunk.moves));
  ASSERT_TRUE(moves.has_value());
  const Outcome replayed = play_apart(seed, &*moves);
  EXPECT_EQ(replayed.violation, shrunk.outcome.violation);
  EXPECT_EQ(replayed.hash, shrunk.outcome.hash);
  EXPECT_EQ(replayed.story, shrunk.outcome.story);
  plant(Bug::kNone);
  EXPECT_EQ(play_apart(seed, &*moves).violation, "");
}

TEST(Shrinking, ListsOfMovesAreReadAsTheyAreWritten) {
  EXPECT_EQ(kind_of("entry 12: pins is 3 and should be 4"), "entry : pins is  and should be ");
  EXPECT_EQ(parse_moves(""), Moves{});
  EXPECT_EQ(parse_moves("0-2,7"), (Moves{0, 1, 2, 7}));
  EXPECT_EQ(text_of({0, 1, 2, 7}), "0-2,7");
  for (const char* wrong : {"a", "1,", ",1", "3-1", "5,4", "1-", "4294967295"})
    EXPECT_EQ(parse_moves(wrong), std::nullopt) << wrong;
}

}  // namespace
}  // namespace kvsidecar::sim
