// SPDX-License-Identifier: Apache-2.0
// Goal: a layered get never announces a layer that isn't wholly there. Method: batches ended by
// hand, progress and engine memory looked at after each.
#include "tests/unit/device/manual_device.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kMiB = 1 << 20;

// O1-11
TEST(LayeredGet, EachLayerOfAllItemsIsThereBeforeProgressSaysSo) {
  constexpr uint32_t kItems = 3, kLayers = 4;
  ManualRig rig(kItems, kLayers, 4096);
  for (uint32_t i = 0; i < kItems; ++i)
    for (uint32_t r = 0; r < kLayers; ++r) fill_pattern(rig.host(i) + r * 4096, 4096, i * 10 + r);
  rig.submit(CopyKind::kGetLayered, 1, 0, kItems);
  for (uint32_t layer = 0; layer < kLayers; ++layer) {
    ASSERT_TRUE(rig.next_batch());
    EXPECT_EQ(rig.progress, layer);
    EXPECT_EQ(rig.device.last().bytes, kItems * 4096u);
    rig.device.end();
    for (uint32_t i = 0; i < kItems; ++i) {
      EXPECT_TRUE(is_pattern(rig.engine(i, layer), 4096, i * 10 + layer));
      EXPECT_EQ(rig.claims.state(i), ClaimState::kCopying);
    }
  }
  EXPECT_EQ(rig.run_out(), std::vector<uint64_t>{1});
  EXPECT_EQ(rig.progress, kLayers);
  EXPECT_EQ(rig.device.batches.size(), kLayers);
  for (uint32_t i = 0; i < kItems; ++i) EXPECT_EQ(rig.claims.state(i), ClaimState::kDone);
}

TEST(LayeredGet, ALayerLargerThanABatchIsAnnouncedAfterItsLastBatch) {
  ManualRig rig(3, 2, 5 * kMiB);
  for (uint32_t i = 0; i < 3; ++i) fill_pattern(rig.host(i), 10 * kMiB, i);
  rig.submit(CopyKind::kGetLayered, 1, 0, 3);
  std::vector<uint64_t> progress;
  while (rig.next_batch()) {
    progress.push_back(rig.progress);
    EXPECT_LE(rig.device.last().bytes, kBatchBytes);
    rig.device.end();
  }
  progress.push_back(rig.progress);
  EXPECT_EQ(progress, (std::vector<uint64_t>{0, 0, 1, 1, 2}));
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(std::memcmp(rig.engine(i, 0), rig.host(i), 5 * kMiB), 0);
    EXPECT_EQ(std::memcmp(rig.engine(i, 1), rig.host(i) + 5 * kMiB, 5 * kMiB), 0);
    EXPECT_EQ(rig.items[i].status, Code::kOk);
  }
}

TEST(LayeredGet, ProgressStopsForGoodAtTheLayerThatFailed) {
  ManualRig rig(2, 4, 4096);
  rig.submit(CopyKind::kGetLayered, 1, 0, 2);
  ASSERT_TRUE(rig.next_batch());
  rig.device.end();
  ASSERT_TRUE(rig.next_batch());
  rig.device.end(Code::kMemoryFault);
  EXPECT_EQ(rig.run_out(), std::vector<uint64_t>{1});
  EXPECT_EQ(rig.progress, 1u);
  EXPECT_EQ(rig.items[0].status, Code::kMemoryFault);
  EXPECT_EQ(rig.items[1].status, Code::kMemoryFault);
  EXPECT_EQ(rig.device.batches.size(), 2u);
}

TEST(LayeredGet, WithOneItemLostTheOthersAreCopiedButNoLayerIsAnnounced) {
  ManualRig rig(2, 3, 4096);
  fill_pattern(rig.host(1), 3 * 4096, 9);
  ASSERT_TRUE(rig.claims.claim(0).move(ClaimState::kQueued, ClaimState::kRevoked));
  rig.submit(CopyKind::kGetLayered, 1, 0, 2);
  EXPECT_EQ(rig.run_out(), std::vector<uint64_t>{1});
  EXPECT_EQ(rig.progress, 0u);
  EXPECT_EQ(rig.items[0].status, Code::kRevoked);
  EXPECT_EQ(rig.items[1].status, Code::kOk);
  EXPECT_EQ(std::memcmp(rig.engine(1, 2), rig.host(1) + 2 * 4096, 4096), 0);
}

TEST(LayeredGet, WithAllItemsLostNothingIsCopied) {
  ManualRig rig(2, 3, 4096);
  for (uint32_t i = 0; i < 2; ++i)
    ASSERT_TRUE(rig.claims.claim(i).move(ClaimState::kQueued, ClaimState::kRevoked));
  rig.submit(CopyKind::kGetLayered, 1, 0, 2);
  EXPECT_EQ(rig.run_out(), std::vector<uint64_t>{1});
  EXPECT_TRUE(rig.device.batches.empty());
  EXPECT_EQ(rig.progress, 0u);
}

TEST(LayeredGet, WithoutACounterItIsAGetLikeAnyOther) {
  ManualRig rig(1, 2, 4096);
  fill_pattern(rig.host(0), 8192, 4);
  CopyCommand command = rig.command(CopyKind::kGetLayered, 1, 0, 1);
  command.progress = nullptr;
  ASSERT_TRUE(rig.worker.submit(command));
  rig.run_out();
  EXPECT_EQ(rig.items[0].status, Code::kOk);
  EXPECT_EQ(std::memcmp(rig.engine(0, 1), rig.host(0) + 4096, 4096), 0);
}

}  // namespace
}  // namespace kvsidecar
