// SPDX-License-Identifier: Apache-2.0
// Goal: counts of reads with holes are right, or wrong exactly as the real daemon's are. Method:
// the cases of the facts by number; 20,000 made-up jobs against a count made byte by byte.
#include "tests/usrbio/core/holes.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <random>

namespace kvsidecar::fake3fs {
namespace {

using Pieces = std::vector<ReadPiece>;
constexpr uint64_t kMiB = 1 << 20;

std::vector<int64_t> folded(const std::vector<Pieces>& job, bool fault, bool forbid = false) {
  HoleFolder folder(fault, forbid);
  std::vector<int64_t> results;
  for (const Pieces& pieces : job) results.push_back(folder.fold(pieces).result);
  return results;
}

TEST(Holes, CountWhenStoredBytesFollowAndElseNot) {
  EXPECT_EQ(folded({{{4, 4}, {4, 0}, {4, 4}}}, true), std::vector<int64_t>({12}));
  EXPECT_EQ(folded({{{4, 0}, {4, 4}}}, true), std::vector<int64_t>({8}));
  EXPECT_EQ(folded({{{4, 2}, {4, 4}}}, true), std::vector<int64_t>({8})) << "a chunk cut short";
  EXPECT_EQ(folded({{{4, 4}, {4, 0}}}, true), std::vector<int64_t>({4}));
  EXPECT_EQ(folded({{{4, 0}, {4, 0}}}, true), std::vector<int64_t>({0}));
}

TEST(Holes, ForbiddenOnesFailTheReadOnlyWhenStoredBytesFollow) {
  EXPECT_EQ(folded({{{4, 0}, {4, 4}}}, true, true), std::vector<int64_t>({-ENODATA}));
  EXPECT_EQ(folded({{{4, 4}, {4, 0}}}, true, true), std::vector<int64_t>({4}));
}

TEST(Holes, TheFactsExampleGivesThreeMiBForTwo) {
  const std::vector<Pieces> job = {{{kMiB, 0}}, {{kMiB, 0}, {kMiB, kMiB}}};
  EXPECT_EQ(folded(job, true), std::vector<int64_t>({0, 3 * kMiB}));
  EXPECT_EQ(folded(job, false), std::vector<int64_t>({0, 2 * kMiB}));
}

TEST(Holes, TheFaultSaysCompleteThoughTheTailWasNeverRead) {
  const std::vector<Pieces> job = {{{4, 0}}, {{4, 0}, {4, 4}, {4, 0}}};
  EXPECT_EQ(folded(job, true), std::vector<int64_t>({0, 12})) << "12 were asked, 8 are right";
  EXPECT_EQ(folded(job, false), std::vector<int64_t>({0, 8}));
}

TEST(Holes, AReadThatBeginsWithStoredBytesIsImmune) {
  const std::vector<Pieces> job = {{{4, 0}}, {{4, 4}, {4, 0}, {4, 4}}};
  EXPECT_EQ(folded(job, true), folded(job, false));
}

TEST(Holes, AReadOfOneChunkIsImmune) {
  const std::vector<Pieces> job = {{{4, 0}}, {{4, 0}}, {{4, 3}}, {{4, 0}}, {{4, 4}}};
  EXPECT_EQ(folded(job, true), std::vector<int64_t>({0, 0, 3, 0, 4}));
}

// What a read must return: bytes up to the last stored one.
int64_t by_bytes(const Pieces& pieces) {
  int64_t at = 0, last = 0;
  for (const ReadPiece& piece : pieces)
    for (uint64_t i = 0; i < piece.wanted; ++i) {
      ++at;
      if (i < piece.got) last = at;
    }
  return last;
}

TEST(Holes, MadeUpJobsAreRightWithoutTheFaultAndOnlyTooLargeWithIt) {
  std::mt19937 random(7);
  const auto below = [&](uint32_t n) { return random() % n; };
  size_t wrong = 0, complete_lies = 0, larger_than_asked = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::vector<Pieces> job(1 + below(4));
    for (Pieces& pieces : job) {
      pieces.resize(1 + below(4));
      for (ReadPiece& piece : pieces)
        piece = {.wanted = 4, .got = below(2) == 0 ? 0 : 1 + below(4)};
    }
    const auto right = folded(job, false), upstream = folded(job, true);
    for (size_t i = 0; i < job.size(); ++i) {
      const auto asked = static_cast<int64_t>(4 * job[i].size());
      ASSERT_EQ(right[i], by_bytes(job[i]));
      ASSERT_GE(upstream[i], right[i]);
      ASSERT_TRUE(i > 0 || upstream[i] == right[i]) << "a job's first read is always right";
      wrong += upstream[i] != right[i];
      complete_lies += upstream[i] != right[i] && upstream[i] == asked;
      larger_than_asked += upstream[i] > asked;
    }
  }
  EXPECT_GT(wrong, larger_than_asked);
  EXPECT_GT(larger_than_asked, complete_lies);
  EXPECT_GT(complete_lies, 0u);
}

}  // namespace
}  // namespace kvsidecar::fake3fs
