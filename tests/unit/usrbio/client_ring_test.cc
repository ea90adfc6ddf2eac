// SPDX-License-Identifier: Apache-2.0
// Goal: our end of a ring says what was asked and hears what was done, in any order, round and
// round. Method: the server's side of the same memory, moved by hand.
#include "sidecar/store/usrbio/client_ring.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <set>

#include "tests/unit/usrbio/ring_server.h"

namespace kvsidecar::usrbio {
namespace {

constexpr MemoryId kMemory = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
constexpr ClientRing::Io kIo{kMemory, 100, 200, 300, 400};

std::vector<ClientRing::Ended> poll(ClientRing& ring) {
  std::array<ClientRing::Ended, 64> ended;
  const size_t count = ring.poll(ended);
  return {ended.begin(), ended.begin() + static_cast<ptrdiff_t>(count)};
}

TEST(ClientRingTest, WhatIsPreparedIsPublishedWithItsArguments) {
  RingServer server(4);
  ClientRing ring(server.memory(), 4);
  EXPECT_EQ(ring.prepare(kIo, 77), 0);
  const auto seen = server.next();
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->index, 0);
  const auto arguments = server.arguments(0);
  EXPECT_EQ(std::memcmp(arguments.memory, kMemory.data(), 16), 0);
  EXPECT_EQ(arguments.memory_offset, 100u);
  EXPECT_EQ(arguments.inode, 200u);
  EXPECT_EQ(arguments.file_offset, 300u);
  EXPECT_EQ(arguments.bytes, 400u);
  EXPECT_FALSE(server.next());
}

TEST(ClientRingTest, ACompletionCarriesTheCallersNumberAndTheServersResult) {
  RingServer server(4);
  ClientRing ring(server.memory(), 4);
  ASSERT_EQ(ring.prepare(kIo, 77), 0);
  EXPECT_FALSE(ring.has_completion());
  EXPECT_TRUE(poll(ring).empty());
  server.serve(-EIO);
  EXPECT_TRUE(ring.has_completion());
  const auto ended = poll(ring);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].user, 77u);
  EXPECT_EQ(ended[0].bytes, 400u);
  EXPECT_EQ(ended[0].result, -EIO);
  EXPECT_FALSE(ring.has_completion());
  EXPECT_EQ(ring.outstanding(), 0u);
}

TEST(ClientRingTest, CompletionsInAnotherOrderAreTheirOwnRequests) {
  RingServer server(4);
  ClientRing ring(server.memory(), 4);
  std::array<RingServer::Submission, 4> taken;
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_EQ(ring.prepare(kIo, 10 + i), static_cast<int>(i));
    taken[i] = *server.next();
  }
  for (const size_t i : std::initializer_list<size_t>{2, 0, 3, 1})
    server.complete(taken[i].index, taken[i].user, 1000 + taken[i].index);
  std::vector<uint64_t> users;
  for (const auto& ended : poll(ring)) {
    users.push_back(ended.user);
    EXPECT_EQ(ended.result, static_cast<int64_t>(990 + ended.user));
  }
  EXPECT_EQ(users, (std::vector<uint64_t>{12, 10, 13, 11}));
}

TEST(ClientRingTest, ItHoldsAsManyAsItsEntries) {
  for (const uint32_t entries : {1u, 2u, 5u, 7u, 64u, 65u, 8191u}) {
    RingServer server(entries);
    ClientRing ring(server.memory(), entries);
    for (uint32_t i = 0; i < entries; ++i) ASSERT_GE(ring.prepare(kIo, i), 0) << entries;
    EXPECT_EQ(ring.prepare(kIo, entries), -EAGAIN) << entries;
    EXPECT_TRUE(ring.fault().ok());
  }
}

// usrbio.md §10 and §11.2: the submission tail moves only in order, whatever our own count says.
TEST(ClientRingTest, OneSlowRequestKeepsTheRingFullThoughTheOthersHaveEnded) {
  RingServer server(4);
  ClientRing ring(server.memory(), 4);
  std::array<RingServer::Submission, 4> taken;
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_GE(ring.prepare(kIo, i), 0);
    taken[i] = *server.next();
  }
  for (size_t i = 1; i < 4; ++i) server.complete(taken[i].index, taken[i].user, 400);
  EXPECT_EQ(poll(ring).size(), 3u);
  EXPECT_EQ(ring.outstanding(), 1u);
  EXPECT_EQ(ring.prepare(kIo, 9), -EAGAIN);
  for (int i = 0; i < 4; ++i) server.advance_tail();
  EXPECT_GE(ring.prepare(kIo, 9), 0);
}

TEST(ClientRingTest, TheSlotOfACompletionThatNeverComesStaysTaken) {
  RingServer server(3);
  ClientRing ring(server.memory(), 3);
  ASSERT_EQ(ring.prepare(kIo, 1), 0);
  server.next();
  server.advance_tail();  // done, but nobody says so
  for (uint64_t round = 0; round < 50; ++round) {
    ASSERT_EQ(ring.prepare(kIo, 2), 1);
    ASSERT_EQ(ring.prepare(kIo, 3), 2);
    EXPECT_EQ(ring.prepare(kIo, 4), -EAGAIN);
    server.serve(400);
    server.serve(400);
    EXPECT_EQ(poll(ring).size(), 2u);
  }
  EXPECT_EQ(ring.outstanding(), 1u);
}

TEST(ClientRingTest, ALateCompletionIsStillItsOwnRequest) {
  RingServer server(2);
  ClientRing ring(server.memory(), 2);
  ASSERT_EQ(ring.prepare(kIo, 1), 0);
  const auto late = *server.next();
  server.advance_tail();
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_EQ(ring.prepare(kIo, 1000 + i), 1);
    server.serve(400);
    ASSERT_EQ(poll(ring)[0].user, 1000 + i);
  }
  server.complete(late.index, late.user, 400);
  EXPECT_EQ(poll(ring)[0].user, 1u);
  EXPECT_EQ(ring.prepare(kIo, 5), 0);
}

TEST(ClientRingTest, ItGoesRoundAndRound) {
  constexpr uint64_t kRounds = 10'000;
  RingServer server(5);
  ClientRing ring(server.memory(), 5);
  uint64_t next_user = 0, ended_users = 0;
  std::set<uint64_t> outstanding;
  for (uint64_t round = 0; round < kRounds; ++round) {
    const uint64_t count = 1 + round % 5;
    for (uint64_t i = 0; i < count; ++i) {
      ASSERT_GE(ring.prepare(kIo, next_user), 0);
      outstanding.insert(next_user++);
    }
    for (uint64_t i = 0; i < count; ++i) server.serve(1);
    for (const auto& ended : poll(ring)) ended_users += outstanding.erase(ended.user);
  }
  EXPECT_EQ(ended_users, next_user);
  EXPECT_TRUE(ring.fault().ok());
}

TEST(ClientRingTest, PollTakesNoMoreThanItIsGivenRoomFor) {
  RingServer server(8);
  ClientRing ring(server.memory(), 8);
  for (uint64_t i = 0; i < 8; ++i) ASSERT_GE(ring.prepare(kIo, i), 0);
  for (int i = 0; i < 8; ++i) server.serve(1);
  std::array<ClientRing::Ended, 3> few;
  EXPECT_EQ(ring.poll(few), 3u);
  EXPECT_EQ(server.completion_tail(), 3);
  EXPECT_EQ(ring.poll(few), 3u);
  EXPECT_EQ(ring.poll(few), 2u);
  EXPECT_EQ(ring.poll(few), 0u);
}

TEST(ClientRingTest, PostsDoNotPileUp) {
  RingServer server(4);
  ClientRing ring(server.memory(), 4);
  for (int i = 0; i < 3; ++i) {
    ASSERT_GE(ring.prepare(kIo, 1), 0);
    server.serve(1);
    ring.discard_posts(poll(ring).size());
  }
  EXPECT_EQ(server.posts(), 0);
  ring.discard_posts(5);
  EXPECT_EQ(server.posts(), 0);
}

}  // namespace
}  // namespace kvsidecar::usrbio
