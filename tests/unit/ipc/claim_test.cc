// SPDX-License-Identifier: Apache-2.0
// Goal: one side at a time owns an item's memory, and a side that slept wins no later request's
// word.
// Method: every transition by hand on one word, then two threads that race for it many times.
#include "ipc/claim.h"

#include <gtest/gtest.h>

#include <barrier>
#include <thread>

namespace kvsidecar {
namespace {

constexpr ClaimState kAllStates[] = {
    ClaimState::kFree,   ClaimState::kQueued,  ClaimState::kCopying,   ClaimState::kDone,
    ClaimState::kFailed, ClaimState::kRevoked, ClaimState::kAbandoned, ClaimState::kSkipped};

TEST(Claim, MovesOnlyFromTheStateThatItIsIn) {
  for (const ClaimState from : kAllStates) {
    for (const ClaimState named : kAllStates) {
      ClaimWord word{claim_value(5, 3, from)};
      const Claim claim(&word, 5, 3);
      EXPECT_EQ(claim.move(named, ClaimState::kDone), named == from);
      EXPECT_EQ(claim.state(), named == from ? ClaimState::kDone : from);
    }
  }
}

TEST(Claim, AnotherRequestOrItemOwnsNothingOfIt) {
  ClaimWord word{claim_value(5, 3, ClaimState::kQueued)};
  EXPECT_FALSE(Claim(&word, 4, 3).move(ClaimState::kQueued, ClaimState::kCopying));
  EXPECT_FALSE(Claim(&word, 5, 2).move(ClaimState::kQueued, ClaimState::kCopying));
  EXPECT_EQ(Claim(&word, 4, 3).state(), ClaimState::kFree);
  EXPECT_EQ(word.load(), claim_value(5, 3, ClaimState::kQueued));
}

TEST(Claim, ADaemonThatWasStoppedCantWinAReusedWord) {
  ClaimWord word{0};
  const Claim first(&word, 100, 7);
  word.store(claim_value(100, 7, ClaimState::kQueued));
  ASSERT_TRUE(first.move(ClaimState::kQueued, ClaimState::kRevoked));
  word.store(claim_value(101, 7, ClaimState::kQueued));  // the same word, the next request
  EXPECT_FALSE(first.move(ClaimState::kQueued, ClaimState::kCopying));
  EXPECT_TRUE(Claim(&word, 101, 7).move(ClaimState::kQueued, ClaimState::kCopying));
}

TEST(Claim, AnAbandonedPutNeverCounts) {
  ClaimWord word{claim_value(1, 0, ClaimState::kCopying)};
  const Claim claim(&word, 1, 0);
  ASSERT_TRUE(claim.move(ClaimState::kCopying, ClaimState::kAbandoned));
  EXPECT_FALSE(claim.move(ClaimState::kCopying, ClaimState::kDone));
}

TEST(Claim, GarbageInTheWordLosesTheClaim) {
  ClaimWord word{~uint64_t{0}};
  const Claim claim(&word, 1, 0);
  EXPECT_EQ(claim.state(), ClaimState::kFree);
  EXPECT_FALSE(claim.move(ClaimState::kQueued, ClaimState::kCopying));
}

TEST(Claim, SequenceTagAndStateDontOverlap) {
  const uint64_t value = claim_value((1ull << 40) - 1, 0xffff, ClaimState::kFree);
  EXPECT_EQ(value, 0xffffffffffffff00ull);
  EXPECT_EQ(claim_value(1, 0, ClaimState::kSkipped), 0x1000007u);
  EXPECT_EQ(claim_value(0, 1, ClaimState::kFree), 0x100u);
}

TEST(Claim, OfCopyAndRevokeExactlyOneWins) {
  constexpr uint64_t kRounds = 3000;
  ClaimWord word{claim_value(0, 0, ClaimState::kQueued)};
  std::barrier<> start(2), end(2);
  uint64_t copied = 0, revoked = 0;
  std::thread daemon([&] {
    for (uint64_t i = 0; i < kRounds; ++i) {
      start.arrive_and_wait();
      copied += Claim(&word, i, 0).move(ClaimState::kQueued, ClaimState::kCopying) ? 1 : 0;
      end.arrive_and_wait();
    }
  });
  for (uint64_t i = 0; i < kRounds; ++i) {
    word.store(claim_value(i, 0, ClaimState::kQueued));
    start.arrive_and_wait();
    revoked += Claim(&word, i, 0).move(ClaimState::kQueued, ClaimState::kRevoked) ? 1 : 0;
    end.arrive_and_wait();
  }
  daemon.join();
  EXPECT_EQ(copied + revoked, kRounds);
}

}  // namespace
}  // namespace kvsidecar
