// SPDX-License-Identifier: Apache-2.0
// Goal: nothing is free before its I/O has ended: late, lost, or with its mount. Method: a fake
// mount, completions by hand, and a clock that only the test moves.
#include "sidecar/store/io_wait.h"
#include "tests/unit/usrbio_store/transfers_fixture.h"

namespace kvsidecar::testing {
namespace {

using Taken = TransferPath::Taken;

class LostTransfersTest : public TransfersTest {
 protected:
  void lose_one() {
    clock_.advance(options_.lost_ns);
    transfers_->submit();
  }
};

TEST_F(LostTransfersTest, ALostReadKeepsItsMemoryUntilItEnds) {
  make();
  ASSERT_EQ(read(0, 4096, 1), Taken::kYes);
  lose_one();
  EXPECT_EQ(transfers_->quarantined(), 1u);
  EXPECT_EQ(reads().quarantined.load(), 1u);
  EXPECT_EQ(transfers_->in_flight(), 1u) << "it was given up, but still owns its memory";
  EXPECT_TRUE(drain().empty());
  EXPECT_EQ(transfers_->oldest_ns(), 0u) << "nobody waits for it";
  mount_.finish_all();
  const auto done = drain();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_TRUE(same(done[0], 1, 4096));
  EXPECT_EQ(transfers_->quarantined(), 0u);
  EXPECT_EQ(reads().quarantined.load(), 0u);
  EXPECT_EQ(reads().late.load(), 1u);
  EXPECT_TRUE(drain().empty());
}

TEST_F(LostTransfersTest, WhatWaitsForRoomIsNotLost) {
  make(1);
  ASSERT_EQ(read(0, 2 * kChunk, 1), Taken::kYes);
  mount_.finish_all();
  EXPECT_TRUE(drain().empty());
  clock_.advance(options_.lost_ns - 1);
  transfers_->submit();
  EXPECT_EQ(transfers_->quarantined(), 0u);
}

TEST_F(LostTransfersTest, ARingBehindALostReadIsReplacedAndTheOldOneStays) {
  make(2);
  ASSERT_EQ(read(0, 4096, 1), Taken::kYes);
  const FakeIo lost = mount_.pending[0];
  lose_one();
  EXPECT_FALSE(transfers_->stuck()) << "it takes more";
  mount_.prepare_error = [] { return -EAGAIN; };
  EXPECT_EQ(read(0, 4096, 2), Taken::kFull);
  EXPECT_EQ(transfers_->stuck(), TransferClass::kDemandRead);
  mount_.prepare_error = nullptr;
  transfers_->retire_ring(TransferClass::kDemandRead);
  EXPECT_FALSE(transfers_->stuck());
  EXPECT_EQ(read(0, 4096, 2), Taken::kFull) << "the new ring isn't there yet";
  transfers_->set_ring(TransferClass::kDemandRead, ring_of(2, false));
  ASSERT_EQ(read(0, 4096, 2), Taken::kYes);
  EXPECT_NE(mount_.pending[1].ring, lost.ring);
  mount_.finish(1);
  auto done = drain();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_TRUE(same(done[0], 2, 4096));
  mount_.finish(0);
  done = drain();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_TRUE(same(done[0], 1, 4096));
}

TEST_F(LostTransfersTest, WithItsMountATransferEndsAfterTheGraceTimeOnly) {
  make();
  ASSERT_EQ(read(0, 4096, 1), Taken::kYes);
  mount_.alive = false;
  transfers_->mount_lost();
  clock_.advance(options_.grace_ns - 1);
  EXPECT_FALSE(transfers_->has_completion());
  EXPECT_TRUE(drain().empty()) << "it may still be written";
  clock_.advance(1);
  EXPECT_TRUE(transfers_->has_completion());
  const auto done = drain();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_TRUE(same(done[0], 1, -ENOTCONN));
  EXPECT_EQ(transfers_->in_flight(), 0u);
}

TEST_F(LostTransfersTest, OnALostMountNothingIsStarted) {
  make();
  transfers_->mount_lost();
  const size_t before = mount_.prepared;
  ASSERT_EQ(read(0, 4096, 1), Taken::kYes);
  const auto done = drain();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_TRUE(same(done[0], 1, -ENOTCONN));
  EXPECT_EQ(mount_.prepared, before);
}

TEST_F(LostTransfersTest, WhatComesAfterTheEndFindsNothing) {
  make();
  ASSERT_EQ(read(0, 4096, 1), Taken::kYes);
  const FakeIo io = mount_.pending[0];
  transfers_->mount_lost();
  clock_.advance(options_.grace_ns);
  EXPECT_EQ(drain().size(), 1u);
  mount_.pending.clear();
  mount_.repeat(io.ring, io.user, 4096);
  EXPECT_TRUE(drain().empty());
}

TEST_F(LostTransfersTest, StagingBuffersComeBackWithALostMount) {
  make(64, 1);
  const auto memory = page_memory(8192);
  ASSERT_EQ(start(TransferClass::kDemandRead, 0, {memory.get(), 8192}, 1), Taken::kYes);
  transfers_->mount_lost();
  clock_.advance(options_.grace_ns);
  EXPECT_EQ(drain().size(), 1u);
  mount_.pending.clear();
  EXPECT_EQ(memory.get()[0], std::byte{0xee}) << "nothing was read";
}

TEST(NapTest, ANapIsAnEighthOfTheAgeWithinItsBounds) {
  EXPECT_EQ(nap_ns(0), 20'000u);
  EXPECT_EQ(nap_ns(160'000), 20'000u);
  EXPECT_EQ(nap_ns(800'000), 100'000u);
  EXPECT_EQ(nap_ns(8'000'000), 1'000'000u);
  EXPECT_EQ(nap_ns(60'000'000'000), 1'000'000u);
}

}  // namespace
}  // namespace kvsidecar::testing
