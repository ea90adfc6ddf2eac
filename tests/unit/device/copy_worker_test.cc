// SPDX-License-Identifier: Apache-2.0
// Goal: a copy worker's batches, order and queues are as copy_worker.h says. Method: a device whose
// batches the test ends by hand; for digests the host device.
#include "sidecar/device/copy_worker.h"

#include "sidecar/device/host_device.h"
#include "tests/unit/device/manual_device.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kMiB = 1 << 20;

TEST(CopyWorker, ABatchIsAtMost8MiBAndTakesSeveralItems) {
  ManualRig rig(10, 2, 3 * kMiB / 2);
  rig.submit(CopyKind::kPut, 1, 0, 10);
  EXPECT_EQ(rig.run_out(), std::vector<uint64_t>{1});
  uint64_t total = 0;
  for (const ManualDevice::Batch& batch : rig.device.batches) {
    EXPECT_LE(batch.bytes, kBatchBytes);
    total += batch.bytes;
  }
  EXPECT_EQ(total, 30 * kMiB);
  EXPECT_EQ(rig.device.batches.size(), 4u);
}

TEST(CopyWorker, ABatchOfTinyRunsTakesNoItemBeyondItsLimitOfPieces) {
  ManualRig rig(20, 1000, 64);
  rig.submit(CopyKind::kGet, 1, 0, 20);
  rig.run_out();
  EXPECT_EQ(rig.device.batches.size(), 4u);
  for (const ManualDevice::Batch& batch : rig.device.batches)
    EXPECT_LT(batch.pieces.size(), kBatchPieces + 1000);
}

TEST(CopyWorker, BytesComeThroughInLayoutOrderBothWays) {
  ManualRig rig(3, 5, 4096);
  for (uint32_t i = 0; i < 3; ++i)
    for (uint32_t r = 0; r < 5; ++r) fill_pattern(rig.engine(i, r), 4096, i * 10 + r);
  const std::vector<std::byte> before = rig.region.memory;
  rig.submit(CopyKind::kPut, 1, 0, 3);
  rig.run_out();
  for (uint32_t i = 0; i < 3; ++i)
    for (uint32_t r = 0; r < 5; ++r)
      EXPECT_TRUE(is_pattern(rig.host(i) + r * 4096, 4096, i * 10 + r));
  rig.region.memory.assign(rig.region.memory.size(), std::byte{0});
  for (CopyItem& item : rig.items) item.claim = Claim();
  rig.submit(CopyKind::kGet, 2, 0, 3);
  rig.run_out();
  EXPECT_EQ(rig.region.memory, before);
}

TEST(CopyWorker, NeighboursAreCopiedInOnePiece) {
  ManualRig rig(4, 1, 4096);
  rig.submit(CopyKind::kPut, 1, 0, 4);
  rig.run_out();
  ASSERT_EQ(rig.device.batches.size(), 1u);
  EXPECT_EQ(rig.device.last().pieces.size(), 1u);
  EXPECT_EQ(rig.device.last().bytes, 4 * 4096u);
}

// O8-01: a copy call for each layer of each block would cost more than the bytes.
TEST(CopyWorker, FiveHundredBlocksOf32LayersTakeNoMorePiecesThanRunsInAFewBatches) {
  constexpr uint32_t kBlocks = 512, kLayers = 32;
  for (const bool shuffled : {false, true}) {
    ManualRig rig(kBlocks, kLayers, 256);
    if (shuffled)
      for (uint32_t i = 0; i < kBlocks; ++i) rig.items[i].block = i * 101 % kBlocks;
    rig.submit(CopyKind::kPut, 1, 0, kBlocks);
    EXPECT_EQ(rig.run_out(), std::vector<uint64_t>{1});
    size_t pieces = 0;
    for (const ManualDevice::Batch& batch : rig.device.batches) pieces += batch.pieces.size();
    EXPECT_LE(pieces, size_t{kBlocks} * kLayers);
    EXPECT_LE(rig.device.batches.size(), kBlocks * kLayers / kBatchPieces + 1);
  }
}

// O8-01
TEST(CopyWorker, RunsThatTouchAreOneCallHoweverManyBlocksTheySpan) {
  ManualRig rig(512, 1, 4096);
  rig.submit(CopyKind::kPut, 1, 0, 512);
  rig.run_out();
  ASSERT_EQ(rig.device.batches.size(), 1u);
  EXPECT_EQ(rig.device.last().pieces.size(), 1u);
}

TEST(CopyWorker, ExplicitPiecesAreThePartInTheirOrder) {
  ManualRig rig(1, 1, 12288);
  fill_pattern(rig.region.memory.data(), 12288, 1);
  rig.items[0].layout = nullptr;
  rig.items[0].pieces = {{rig.host(0), &rig.region, 8192, 4096},
                         {rig.host(0) + 4096, &rig.region, 0, 8192}};
  rig.submit(CopyKind::kPut, 1, 0, 1);
  rig.run_out();
  EXPECT_EQ(rig.items[0].status, Code::kOk);
  EXPECT_EQ(std::memcmp(rig.host(0), &rig.region.memory[8192], 4096), 0);
  EXPECT_EQ(std::memcmp(rig.host(0) + 4096, rig.region.memory.data(), 8192), 0);
}

// O8-02: large work goes in batches of 8 MiB at most, and a small load waits for one of them.
TEST(CopyWorker, ALoadThatArrivesDuringAStoreGoesBeforeTheRestOfIt) {
  ManualRig rig(3, 1, 12 * kMiB);
  rig.submit(CopyKind::kPut, 1, 0, 1);
  rig.submit(CopyKind::kPut, 2, 1, 1);
  rig.worker.step();
  rig.submit(CopyKind::kGet, 3, 2, 1);
  rig.worker.step();
  EXPECT_EQ(rig.device.batches.size(), 1u) << "the running batch goes on";
  EXPECT_EQ(rig.run_out(), (std::vector<uint64_t>{3, 1, 2}));
  std::vector<Direction> order;
  for (const ManualDevice::Batch& batch : rig.device.batches) order.push_back(batch.direction);
  using enum Direction;
  EXPECT_EQ(order, (std::vector<Direction>{kStore, kLoad, kLoad, kStore, kStore, kStore}));
  for (const CopyItem& item : rig.items) EXPECT_EQ(item.status, Code::kOk);
}

TEST(CopyWorker, CommandsOfOneDirectionRunInOrderOfArrival) {
  ManualRig rig(6, 1, 4096);
  for (uint32_t i = 0; i < 6; ++i)
    rig.submit(i % 2 == 0 ? CopyKind::kPut : CopyKind::kGet, i, i, 1);
  EXPECT_EQ(rig.run_out(), (std::vector<uint64_t>{1, 3, 5, 0, 2, 4}));
}

TEST(CopyWorker, AFullQueueSaysSo) {
  ManualRig rig(8, 1, 4096, 2);
  rig.submit(CopyKind::kPut, 0, 0, 1);
  rig.submit(CopyKind::kPut, 1, 1, 1);
  EXPECT_EQ(rig.worker.room(), 0u);
  EXPECT_FALSE(rig.worker.submit(rig.command(CopyKind::kPut, 2, 2, 1)));
}

TEST(CopyWorker, ACommandIsTakenOnlyWhileThereIsRoomForItsCompletion) {
  ManualRig rig(8, 1, 4096, 2);
  const auto run = [&] {
    while (rig.worker.step() || rig.device.in_flight())
      if (rig.device.in_flight()) rig.device.end();
  };
  rig.submit(CopyKind::kPut, 0, 0, 1);
  rig.submit(CopyKind::kPut, 1, 1, 1);
  run();
  rig.submit(CopyKind::kPut, 2, 2, 1);
  run();
  EXPECT_EQ(rig.claims.state(2), ClaimState::kQueued);
  EXPECT_FALSE(rig.worker.has_work());
  EXPECT_EQ(rig.completed(), (std::vector<uint64_t>{0, 1}));
  EXPECT_TRUE(rig.worker.has_work());
  run();
  EXPECT_EQ(rig.completed(), std::vector<uint64_t>{2});
}

TEST(CopyWorker, PollsWhileABatchIsInFlightAndOnlyThen) {
  ManualRig rig(1, 1, 4096);
  EXPECT_FALSE(rig.worker.step());
  EXPECT_FALSE(rig.worker.has_work());
  rig.submit(CopyKind::kPut, 1, 0, 1);
  EXPECT_TRUE(rig.worker.has_work());
  EXPECT_FALSE(rig.worker.must_poll());
  EXPECT_TRUE(rig.worker.step());
  EXPECT_TRUE(rig.worker.must_poll());
  EXPECT_FALSE(rig.worker.step());
  rig.device.end();
  EXPECT_TRUE(rig.worker.step());
  EXPECT_FALSE(rig.worker.must_poll());
}

TEST(CopyWorker, ACommandWithoutItemsOrBytesCompletes) {
  ManualRig rig(1, 1, 4096);
  rig.submit(CopyKind::kPut, 1, 0, 0);
  rig.submit(CopyKind::kGetLayered, 2, 0, 0);
  rig.items[0].bytes = 0;
  rig.items[0].layout = nullptr;
  rig.submit(CopyKind::kPut, 3, 0, 1);
  EXPECT_EQ(rig.run_out().size(), 3u);
  EXPECT_EQ(rig.items[0].status, Code::kOk);
  EXPECT_EQ(rig.claims.state(0), ClaimState::kDone);
  EXPECT_TRUE(rig.device.batches.empty());
}

// Parts of 1 byte to several batches, in runs that divide leaves, cut them, and are larger.
TEST(CopyWorker, OnTheHostDeviceAPutGetsTheDigestOfItsPart) {
  struct Case {
    uint32_t runs;
    uint64_t run_bytes;
  };
  for (const Case& c : {Case{1, 1}, Case{3, 1000}, Case{7, 16384}, Case{5, 65536}, Case{3, 70'001},
                        Case{1, 3 * kMiB}, Case{1200, 16384}, Case{2, 9 * kMiB + 5}}) {
    constexpr uint32_t kBlocks = 2;
    const uint64_t part = c.runs * c.run_bytes;
    EngineMemory engine(part * kBlocks);
    fill_pattern(engine.data(), part * kBlocks, 6);
    HostDevice device(3);
    std::unique_ptr<Region> region = device.import(engine.handle()).take();
    BlockLayout layout{kBlocks, part, {}};
    for (uint32_t r = 0; r < c.runs; ++r)
      layout.runs.push_back({region.get(), r * kBlocks * c.run_bytes, c.run_bytes, c.run_bytes});
    std::vector<std::byte> host(part * kBlocks), gathered;
    ClaimPage claims(kBlocks);
    std::vector<CopyItem> items(kBlocks);
    for (uint32_t i = 0; i < kBlocks; ++i) {
      items[i].claim = claims.claim(i);
      items[i].host = &host[i * part];
      items[i].bytes = part;
      items[i].layout = &layout;
      items[i].block = i;
      items[i].seed = 100 + i;
    }
    FakeClock clock;
    CopyWorker worker(device, clock, 2, nullptr);
    ASSERT_TRUE(worker.submit({CopyKind::kPut, 1, items.data(), kBlocks, nullptr}));
    while (worker.step()) continue;
    for (uint32_t i = 0; i < kBlocks; ++i) {
      gathered.clear();
      for (uint32_t r = 0; r < c.runs; ++r) {
        const std::byte* run = engine.data() + (r * kBlocks + i) * c.run_bytes;
        gathered.insert(gathered.end(), run, run + c.run_bytes);
      }
      EXPECT_EQ(items[i].status, Code::kOk);
      EXPECT_EQ(std::memcmp(items[i].host, gathered.data(), part), 0) << part;
      EXPECT_EQ(items[i].digest, part_digest(gathered, 100 + i)) << part;
    }
    device.close(std::move(region));
  }
}

TEST(CopyWorker, OnTheHostDeviceOneStepEndsASmallCommand) {
  ManualRig rig(32, 1, 16384);
  EngineMemory engine(32 * 16384);
  HostDevice device(3);
  std::unique_ptr<Region> region = device.import(engine.handle()).take();
  rig.layout.runs = {{region.get(), 0, 16384, 16384}};
  CopyWorker worker(device, rig.clock, 2, nullptr);
  ASSERT_TRUE(worker.submit(rig.command(CopyKind::kPut, 1, 0, 32)));
  EXPECT_TRUE(worker.step());
  CopyDone done;
  EXPECT_TRUE(worker.poll(done));
  device.close(std::move(region));
}

using CopyWorkerDeathTest = ::testing::Test;

TEST(CopyWorkerDeathTest, AnItemWhosePartDoesntFitItsLayoutIsOurBugAndCaught) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ManualRig rig(1, 1, 4096);
  rig.items[0].bytes = 4095;
  rig.submit(CopyKind::kPut, 1, 0, 1);
  EXPECT_DEATH(rig.worker.step(), "check failed");
}

TEST(CopyWorker, LoadsThatNeverEndDoNotStarveAStore) {
  ManualRig rig(40, 1, 8 * kMiB / 8, 64);
  rig.submit(CopyKind::kPut, 1, 0, 1);
  for (uint32_t i = 1; i < 40; ++i) rig.submit(CopyKind::kGet, 1 + i, i, 1);
  const std::vector<uint64_t> order = rig.run_out();
  const auto store = std::find(order.begin(), order.end(), 1u);
  ASSERT_NE(store, order.end());
  EXPECT_LT(store - order.begin(), 12);
}

}  // namespace
}  // namespace kvsidecar
