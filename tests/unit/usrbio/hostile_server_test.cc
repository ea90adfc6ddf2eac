// SPDX-License-Identifier: Apache-2.0
// Goal: a server that writes nonsense ends the ring, with a sentence, and nothing else. Method:
// each kind of nonsense written by hand; memory checkers see what it touches.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>

#include "tests/support/fakes.h"
#include "tests/unit/usrbio/ring_server.h"

namespace kvsidecar::usrbio {
namespace {

class HostileServerTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kEntries = 4;
  size_t poll() { return ring_.poll(ended_); }
  void expect_ended() {
    EXPECT_EQ(poll(), 0u);
    EXPECT_EQ(ring_.fault().code(), Code::kIoError);
    EXPECT_NE(ring_.fault().text(), "");
    EXPECT_FALSE(ring_.has_completion());
    EXPECT_EQ(ring_.prepare({}, 1), -EPROTO);
    EXPECT_EQ(poll(), 0u);
  }
  RingServer::Submission prepared(uint64_t user) {
    EXPECT_GE(ring_.prepare({}, user), 0);
    return *server_.next();
  }

  RingServer server_{kEntries};
  ClientRing ring_{server_.memory(), kEntries};
  std::array<ClientRing::Ended, 16> ended_;
};

TEST_F(HostileServerTest, ACompletionHeadOutOfRange) {
  for (const int32_t head : {-1, 5, 6, INT32_MAX, INT32_MIN}) {
    RingServer server(kEntries);
    ClientRing ring(server.memory(), kEntries);
    ASSERT_EQ(ring.prepare({}, 1), 0);
    server.completion_head() = head;
    EXPECT_TRUE(ring.has_completion());
    EXPECT_EQ(ring.poll(ended_), 0u);
    EXPECT_EQ(ring.fault().code(), Code::kIoError) << head;
    EXPECT_NE(ring.fault().text().find(std::to_string(head)), std::string::npos);
  }
}

TEST_F(HostileServerTest, MoreCompletionsThanRequests) {
  prepared(1);
  server_.completion_head() = 2;
  expect_ended();
  EXPECT_EQ(ring_.outstanding(), 1u);
}

TEST_F(HostileServerTest, ACompletionWithoutAnyRequest) {
  server_.complete(0, 1, 100);
  expect_ended();
}

TEST_F(HostileServerTest, ADoubledCompletion) {
  const auto first = prepared(1);
  prepared(2);
  server_.complete(first.index, first.user, 100);
  server_.complete(first.index, first.user, 100);
  EXPECT_EQ(poll(), 1u);
  EXPECT_EQ(ended_[0].user, 1u);
  expect_ended();
  EXPECT_EQ(ring_.outstanding(), 1u);
}

TEST_F(HostileServerTest, ACompletionOfAnEarlierRequestInTheSameSlot) {
  const auto first = prepared(1);
  server_.advance_tail();
  server_.complete(first.index, first.user, 100);
  ASSERT_EQ(poll(), 1u);
  const auto second = prepared(2);
  ASSERT_EQ(second.index, first.index);
  server_.complete(first.index, first.user, 100);
  expect_ended();
  EXPECT_EQ(ring_.outstanding(), 1u);
}

TEST_F(HostileServerTest, AnIndexThatIsNotTheTokensSlot) {
  const auto first = prepared(1);
  const auto second = prepared(2);
  server_.complete(second.index, first.user, 100);
  expect_ended();
}

TEST_F(HostileServerTest, AnIndexOutOfRange) {
  for (const int32_t index : {-1, 4, 5, 1000, INT32_MAX, INT32_MIN}) {
    RingServer server(kEntries);
    ClientRing ring(server.memory(), kEntries);
    ASSERT_EQ(ring.prepare({}, 1), 0);
    server.complete(index, static_cast<uint32_t>(index), 100);
    EXPECT_EQ(ring.poll(ended_), 0u);
    EXPECT_FALSE(ring.fault().ok()) << index;
  }
}

TEST_F(HostileServerTest, ASubmissionTailOutOfRangeOrPastTheHeadOrBackwards) {
  for (const int32_t tail : {-1, 5, INT32_MAX, INT32_MIN, 3}) {
    RingServer server(kEntries);
    ClientRing ring(server.memory(), kEntries);
    ASSERT_EQ(ring.prepare({}, 1), 0);
    server.submission_tail() = tail;
    EXPECT_EQ(ring.prepare({}, 2), -EPROTO) << tail;
    EXPECT_FALSE(ring.fault().ok());
  }
  prepared(1);
  server_.advance_tail();
  prepared(2);
  server_.submission_tail() = 0;
  EXPECT_EQ(ring_.prepare({}, 3), -EPROTO);
}

TEST_F(HostileServerTest, WhatItDoesToOurOwnIndicesIsNotLookedAt) {
  prepared(1);
  server_.submission_head() = 1'000'000;
  EXPECT_EQ(ring_.prepare({}, 2), 1);
  EXPECT_EQ(server_.submission_head(), 2);
}

TEST_F(HostileServerTest, RandomBytesNeverEndMoreThanWasAsked) {
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    testing::SeededRandom random(seed);
    RingServer server(kEntries);
    ClientRing ring(server.memory(), kEntries);
    uint64_t asked = 0, got = 0;
    for (int step = 0; step < 40 && ring.fault().ok(); ++step) {
      switch (random.below(4)) {
        case 0:
          asked += ring.prepare({}, asked) >= 0;
          break;
        case 1:
          server.completion_head() = static_cast<int32_t>(random.below(6)) - 1;
          break;
        case 2:
          server.submission_tail() = static_cast<int32_t>(random.below(6)) - 1;
          break;
        default:
          // Into the completions: a slot number or token that is right now and then.
          const size_t at = 16 + 56 * 5 + 8 * random.below(3 * 5);
          const uint64_t value = random.one_in(2) ? random.next() : random.below(5) | 1ull << 32;
          std::memcpy(server.memory() + at, &value, sizeof value);
      }
      got += ring.poll(ended_);
      ASSERT_LE(got + ring.outstanding(), asked) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace kvsidecar::usrbio
