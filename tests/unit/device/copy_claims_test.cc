// SPDX-License-Identifier: Apache-2.0
// Goal: a copy worker touches engine memory only under a claim, and an item's status says exactly
// what became of it. Method: claim words moved by the test as a client would, at each point between
// queueing and the end of the last batch, which the test ends by hand.
#include "tests/unit/device/manual_device.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kMiB = 1 << 20;

void revoke(ManualRig& rig, uint32_t item) {
  ASSERT_TRUE(rig.claims.claim(item).move(ClaimState::kQueued, ClaimState::kRevoked));
}

TEST(CopyClaims, ARevokedItemIsNeverTouchedAndTheOthersAre) {
  for (const CopyKind kind : {CopyKind::kPut, CopyKind::kGet, CopyKind::kGetLayered}) {
    ManualRig rig(3, 2, 4096);
    revoke(rig, 1);
    rig.submit(kind, 1, 0, 3);
    EXPECT_EQ(rig.run_out(), std::vector<uint64_t>{1});
    for (const ManualDevice::Batch& batch : rig.device.batches)
      for (const Piece& piece : batch.pieces)
        EXPECT_FALSE(piece.host < rig.host(2) && piece.host + piece.bytes > rig.host(1));
    EXPECT_EQ(rig.items[0].status, Code::kOk);
    EXPECT_EQ(rig.items[1].status, Code::kRevoked);
    EXPECT_EQ(rig.items[2].status, Code::kOk);
    EXPECT_EQ(rig.claims.state(0), ClaimState::kDone);
    EXPECT_EQ(rig.claims.state(1), ClaimState::kRevoked);
    EXPECT_EQ(rig.claims.state(2), ClaimState::kDone);
  }
}

TEST(CopyClaims, AnItemPastItsDeadlineIsRevokedAndTimesOut) {
  ManualRig rig(2, 1, 4096);
  rig.items[0].deadline_ns = 5000;
  rig.items[1].deadline_ns = 5001;
  rig.clock.set(5000);
  rig.submit(CopyKind::kGet, 1, 0, 2);
  rig.run_out();
  EXPECT_EQ(rig.items[0].status, Code::kTimeout);
  EXPECT_EQ(rig.claims.state(0), ClaimState::kRevoked);
  EXPECT_EQ(rig.items[1].status, Code::kOk);
}

TEST(CopyClaims, AnItemPastItsDeadlineThatTheClientRevokedFirstIsRevoked) {
  ManualRig rig(1, 1, 4096);
  rig.items[0].deadline_ns = 1;
  revoke(rig, 0);
  rig.submit(CopyKind::kPut, 1, 0, 1);
  rig.run_out();
  EXPECT_EQ(rig.items[0].status, Code::kRevoked);
  EXPECT_TRUE(rig.device.batches.empty());
}

TEST(CopyClaims, ADeadlineThatPassesWhileTheItemIsCopiedChangesNothing) {
  ManualRig rig(1, 1, 4096);
  rig.items[0].deadline_ns = 5000;
  rig.submit(CopyKind::kGet, 1, 0, 1);
  ASSERT_TRUE(rig.next_batch());
  rig.clock.set(9000);
  rig.device.end();
  rig.run_out();
  EXPECT_EQ(rig.items[0].status, Code::kOk);
}

TEST(CopyClaims, AnItemIsCopyingFromItsFirstBatchToTheEndOfItsLast) {
  ManualRig rig(1, 1, 20 * kMiB);
  rig.submit(CopyKind::kPut, 1, 0, 1);
  EXPECT_EQ(rig.claims.state(0), ClaimState::kQueued);
  for (int batch = 0; batch < 3; ++batch) {
    ASSERT_TRUE(rig.next_batch());
    EXPECT_EQ(rig.claims.state(0), ClaimState::kCopying);
    rig.device.end();
    EXPECT_EQ(rig.claims.state(0), ClaimState::kCopying);
  }
  EXPECT_EQ(rig.run_out(), std::vector<uint64_t>{1});
  EXPECT_EQ(rig.claims.state(0), ClaimState::kDone);
}

TEST(CopyClaims, AnItemBehindARunningBatchIsStillTheClients) {
  ManualRig rig(2, 1, 8 * kMiB);
  rig.submit(CopyKind::kGet, 1, 0, 2);
  ASSERT_TRUE(rig.next_batch());
  EXPECT_EQ(rig.claims.state(0), ClaimState::kCopying);
  EXPECT_EQ(rig.claims.state(1), ClaimState::kQueued);
  revoke(rig, 1);
  rig.run_out();
  EXPECT_EQ(rig.items[0].status, Code::kOk);
  EXPECT_EQ(rig.items[1].status, Code::kRevoked);
  EXPECT_EQ(rig.device.batches.size(), 1u);
}

TEST(CopyClaims, APutAbandonedInItsLastBatchDoesntCount) {
  ManualRig rig(1, 1, 4096);
  rig.submit(CopyKind::kPut, 1, 0, 1);
  ASSERT_TRUE(rig.next_batch());
  ASSERT_TRUE(rig.claims.claim(0).move(ClaimState::kCopying, ClaimState::kAbandoned));
  rig.run_out();
  EXPECT_EQ(rig.items[0].status, Code::kAbandoned);
  EXPECT_EQ(rig.claims.state(0), ClaimState::kAbandoned);
}

TEST(CopyClaims, AnAbandonedPutStopsWithItsRunningBatch) {
  ManualRig rig(2, 1, 20 * kMiB);
  rig.submit(CopyKind::kPut, 1, 0, 2);
  ASSERT_TRUE(rig.next_batch());
  ASSERT_TRUE(rig.claims.claim(0).move(ClaimState::kCopying, ClaimState::kAbandoned));
  EXPECT_EQ(rig.run_out(), std::vector<uint64_t>{1});
  EXPECT_EQ(rig.items[0].status, Code::kAbandoned);
  EXPECT_EQ(rig.items[1].status, Code::kOk);
  EXPECT_EQ(rig.device.batches.size(), 1u + 3u);
}

TEST(CopyClaims, AGetCantBeAbandoned) {
  ManualRig rig(1, 1, 20 * kMiB);
  fill_pattern(rig.host(0), 20 * kMiB, 3);
  rig.submit(CopyKind::kGet, 1, 0, 1);
  ASSERT_TRUE(rig.next_batch());
  ASSERT_TRUE(rig.claims.claim(0).move(ClaimState::kCopying, ClaimState::kAbandoned));
  rig.run_out();
  EXPECT_EQ(rig.items[0].status, Code::kOk);
  EXPECT_TRUE(is_pattern(rig.engine(0, 0), 20 * kMiB, 3));
}

TEST(CopyClaims, AFailedBatchFailsItsItemsAndNoOthers) {
  for (const Code failure : {Code::kMemoryFault, Code::kInternal}) {
    ManualRig rig(3, 1, 8 * kMiB);
    rig.submit(CopyKind::kPut, 1, 0, 3);
    ASSERT_TRUE(rig.next_batch());
    rig.device.end();
    ASSERT_TRUE(rig.next_batch());
    rig.device.end(failure);
    EXPECT_EQ(rig.run_out(), std::vector<uint64_t>{1});
    EXPECT_EQ(rig.items[0].status, Code::kOk);
    EXPECT_EQ(rig.items[1].status, failure);
    EXPECT_EQ(rig.items[2].status, Code::kOk);
    EXPECT_EQ(rig.claims.state(1), ClaimState::kFailed);
  }
}

TEST(CopyClaims, AFailureInTheMiddleOfAnItemEndsTheItem) {
  ManualRig rig(2, 1, 20 * kMiB);
  rig.submit(CopyKind::kGet, 1, 0, 2);
  ASSERT_TRUE(rig.next_batch());
  rig.device.end(Code::kMemoryFault);
  EXPECT_EQ(rig.run_out(), std::vector<uint64_t>{1});
  EXPECT_EQ(rig.items[0].status, Code::kMemoryFault);
  EXPECT_EQ(rig.claims.state(0), ClaimState::kFailed);
  EXPECT_EQ(rig.items[1].status, Code::kOk);
  EXPECT_EQ(rig.device.batches.size(), 1u + 3u);
}

// A daemon that was stopped goes on and finds the word in use by a later request.
TEST(CopyClaims, AWordOfALaterRequestIsNotWon) {
  ManualRig rig(1, 1, 4096);
  const uint64_t later = claim_value(ClaimPage::kSequence + 1, 0, ClaimState::kQueued);
  rig.claims.word(0).store(later);
  rig.submit(CopyKind::kGet, 1, 0, 1);
  rig.run_out();
  EXPECT_EQ(rig.items[0].status, Code::kRevoked);
  EXPECT_EQ(rig.claims.word(0).load(), later);
  EXPECT_TRUE(rig.device.batches.empty());
}

TEST(CopyClaims, CopiesInsideTheDaemonNeedNoClaim) {
  ManualRig rig(1, 2, 4096);
  fill_pattern(rig.engine(0, 0), 4096, 1);
  fill_pattern(rig.engine(0, 1), 4096, 2);
  rig.items[0].claim = Claim();
  rig.submit(CopyKind::kPut, 1, 0, 1);
  rig.run_out();
  EXPECT_EQ(rig.items[0].status, Code::kOk);
  EXPECT_TRUE(is_pattern(rig.host(0), 4096, 1));
  EXPECT_TRUE(is_pattern(rig.host(0) + 4096, 4096, 2));
}

}  // namespace
}  // namespace kvsidecar
