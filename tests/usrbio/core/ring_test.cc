// SPDX-License-Identifier: Apache-2.0
// Goal: completions of a job come together, the submission tail moves in order only, and nothing
// that a client writes is followed beyond the ring. Method: a Ring by itself, a client by hand.
#include "tests/usrbio/core/ring.h"

#include <cerrno>
#include <cstring>

#include "tests/usrbio/core/scene.h"

namespace kvsidecar::fake3fs {
namespace {

class RingTest : public ::testing::Test {
 protected:
  void open(uint32_t entries, int32_t io_depth) {
    memory.assign(ring_file_bytes(entries) / 8, 0xffff'ffff'ffff'ffff);
    const auto bytes = std::as_writable_bytes(std::span(memory));
    auto view = RingMemory::over(bytes);
    ASSERT_TRUE(view.ok());
    ring =
        std::make_shared<Ring>(id_of(2), RingOptions{.io_depth = io_depth}, *view, counts, nullptr);
    hand = std::make_unique<HandRing>(bytes, entries);
  }
  int prepare(uint64_t user) { return hand->prepare({.bytes = 1, .user = user}); }
  void prepare_all(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) ASSERT_GE(prepare(i), 0);
  }

  Counts counts;
  Faults faults;
  std::vector<uint64_t> memory;
  std::shared_ptr<Ring> ring;
  std::unique_ptr<HandRing> hand;
};

TEST_F(RingTest, IsFullAfterExactlyItsEntries) {
  open(4, 0);
  prepare_all(4);
  EXPECT_EQ(prepare(9), -EAGAIN);
}

TEST_F(RingTest, ATooSmallOrCrookedMemoryIsNoRing) {
  std::vector<uint64_t> small(ring_file_bytes(1) / 8 - 1);
  EXPECT_FALSE(RingMemory::over(std::as_writable_bytes(std::span(small))).ok());
  std::vector<uint64_t> enough(ring_file_bytes(2) / 8);
  const auto bytes = std::as_writable_bytes(std::span(enough));
  EXPECT_FALSE(RingMemory::over(bytes.subspan(4)).ok());
  EXPECT_EQ(RingMemory::over(bytes)->entries(), 2u);
}

TEST_F(RingTest, AJobsCompletionsComeTogetherWithOnePost) {
  open(8, -3);
  prepare_all(5);
  auto jobs = ring->pick(faults);
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].ios.size(), 3u);
  for (size_t i = 0; i < 3; ++i) jobs[0].ios[i].result = 10 + static_cast<int64_t>(i);
  ring->finish(jobs[0]);
  EXPECT_EQ(hand->posts(), 1);
  const auto done = hand->take();
  ASSERT_EQ(done.size(), 3u);
  for (uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(done[i].user, i);
    EXPECT_EQ(done[i].slot, static_cast<int32_t>(i));
    EXPECT_EQ(done[i].result, 10 + static_cast<int64_t>(i));
  }
}

TEST_F(RingTest, TheReservedWordOfACompletionIsLeftAsItWas) {
  open(2, 0);
  const uint32_t kept = 0xabcdef01;
  std::memcpy(hand->completion(0) + 4, &kept, sizeof(kept));
  prepare_all(1);
  ring->finish(ring->pick(faults)[0]);
  uint32_t found = 0;
  std::memcpy(&found, hand->completion(0) + 4, sizeof(found));
  EXPECT_EQ(found, kept);
}

// The client's own count says "one outstanding"; the ring says full all the same.
TEST_F(RingTest, OneSlowJobKeepsTheRingFullThoughTheOthersWereTaken) {
  open(4, -1);
  prepare_all(4);
  auto jobs = ring->pick(faults);
  ASSERT_EQ(jobs.size(), 4u);
  for (size_t i = 1; i < 4; ++i) ring->finish(jobs[i]);
  EXPECT_EQ(hand->take().size(), 3u);
  EXPECT_EQ(hand->index(1), 0) << "the tail waits for the oldest";
  EXPECT_EQ(prepare(9), -EAGAIN);
  ring->finish(jobs[0]);
  EXPECT_EQ(hand->index(1), 4);
  EXPECT_EQ(hand->take().size(), 1u);
  prepare_all(4);
}

TEST_F(RingTest, JobsLeaveRoomForTheCompletionsThatNobodyTook) {
  open(4, -1);
  prepare_all(3);
  for (const Job& job : ring->pick(faults)) ring->finish(job);
  prepare_all(1);  // three completions wait: one place is left
  auto jobs = ring->pick(faults);
  ASSERT_EQ(jobs.size(), 1u);
  ring->finish(jobs[0]);
  EXPECT_TRUE(ring->pick(faults).empty());
  EXPECT_EQ(hand->take().size(), 4u);
  prepare_all(4);
  EXPECT_EQ(ring->pick(faults).size(), 4u);
}

TEST_F(RingTest, ALostCompletionFreesItsSubmissionButNeverComes) {
  open(2, 0);
  ASSERT_TRUE(faults.set("read.lost", "on@1").ok());
  prepare_all(2);
  const auto jobs = ring->pick(faults);
  ring->finish(jobs[0]);
  const auto done = hand->take();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].user, 1u);
  EXPECT_EQ(hand->index(1), 2);
}

TEST_F(RingTest, GoesRoundManyTimesWhateverItsSize) {
  for (const uint32_t entries : {1u, 2u, 5u, 7u, 100u}) {
    open(entries, 0);
    uint64_t next = 0, seen = 0;
    for (int round = 0; round < 50; ++round) {
      while (prepare(next) >= 0) ++next;
      for (const Job& job : ring->pick(faults)) ring->finish(job);
      for (const auto& done : hand->take()) EXPECT_EQ(done.user, seen++);
    }
    EXPECT_EQ(seen, 50u * entries);
  }
}

TEST_F(RingTest, AnIndexOutsideTheRingEndsItUnfollowed) {
  for (const int number : {0, 2, 3}) {
    for (const int32_t value : {-1, 5, INT32_MAX, INT32_MIN}) {
      open(4, 0);
      prepare_all(2);
      hand->set_index(number, value);
      EXPECT_TRUE(ring->pick(faults).empty());
      EXPECT_FALSE(ring->broken().empty()) << number << " " << value;
    }
  }
  EXPECT_EQ(counts.get("refused"), 12);
}

TEST_F(RingTest, ASlotOutsideTheRingEndsItUnfollowed) {
  for (const int32_t slot : {-1, 4, INT32_MAX}) {
    open(4, 0);
    prepare_all(2);
    hand->set_slot(1, slot);
    EXPECT_TRUE(ring->pick(faults).empty());
    EXPECT_FALSE(ring->broken().empty()) << slot;
  }
}

TEST_F(RingTest, AHeadThatGoesBackEndsIt) {
  open(4, -1);
  prepare_all(3);
  EXPECT_EQ(ring->pick(faults).size(), 3u);
  hand->set_index(0, 1);
  EXPECT_TRUE(ring->pick(faults).empty());
  EXPECT_FALSE(ring->broken().empty());
}

TEST_F(RingTest, ACompletionTailThatGoesAwayWhileAJobRunsEndsIt) {
  open(4, 0);
  prepare_all(2);
  const auto jobs = ring->pick(faults);
  hand->set_index(3, -7);
  ring->finish(jobs[0]);
  EXPECT_FALSE(ring->broken().empty());
  EXPECT_EQ(hand->index(2), 0) << "nothing was posted";
}

}  // namespace
}  // namespace kvsidecar::fake3fs
