// SPDX-License-Identifier: Apache-2.0
// Goal: reads and writes by rings move exactly what they say, whatever order and counts come back.
// Method: a fake mount whose every I/O the test ends by hand; each test names one of the
// interface's habits.
#include "tests/unit/usrbio_store/transfers_fixture.h"

namespace kvsidecar::testing {
namespace {

using Taken = TransferPath::Taken;

// A request in one chunk can't have its hole counted to another one.
TEST_F(TransfersTest, ATransferIsCutAtTheChunksBorders) {
  make();
  ASSERT_EQ(read(4096, 20000, 1), Taken::kYes);
  ASSERT_EQ(mount_.pending.size(), 3u);
  const uint64_t offsets[] = {4096, 8192, 16384}, bytes[] = {4096, 8192, 7712};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(mount_.pending[i].offset, offsets[i]);
    EXPECT_EQ(mount_.pending[i].bytes, bytes[i]);
  }
  mount_.finish_all();
  const auto done = drain();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_TRUE(same(done[0], 1, 20000));
  EXPECT_TRUE(holds_file(page(20000), 4096));
}

TEST_F(TransfersTest, TwoPiecesAreMovedOneBehindTheOther) {
  make();
  ASSERT_EQ(start(TransferClass::kDemandRead, 0, page(4096), 1, page(4096, 200 * 1024)),
            Taken::kYes);
  mount_.finish_all();
  ASSERT_EQ(drain().size(), 1u);
  EXPECT_TRUE(holds_file(page(4096), 0));
  EXPECT_TRUE(holds_file(page(4096, 200 * 1024), 4096));
}

TEST_F(TransfersTest, CompletionsInAnyOrderReachTheirTransfers) {
  make();
  for (uint64_t user = 1; user <= 3; ++user)
    ASSERT_EQ(start(TransferClass::kDemandRead, user * 65536, page(12288, user * 65536), user),
              Taken::kYes);
  // The last request first.
  while (!mount_.pending.empty()) mount_.finish(mount_.pending.size() - 1);
  const auto done = drain();
  ASSERT_EQ(done.size(), 3u);
  for (const auto& one : done) {
    EXPECT_EQ(one.result, 12288);
    EXPECT_TRUE(holds_file(page(12288, one.user * 65536), one.user * 65536));
  }
}

TEST_F(TransfersTest, WhatIsBehindAGapDoesNotCount) {
  make();
  ASSERT_EQ(read(0, 3 * kChunk, 1), Taken::kYes);
  mount_.finish(2);
  mount_.finish(0);
  mount_.finish_with(0, 100);
  const auto done = drain();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_TRUE(same(done[0], 1, kChunk + 100));
  EXPECT_EQ(reads().short_moves.load(), 1u);
}

TEST_F(TransfersTest, AnErrorIsReportedWhereNothingWasMovedBeforeIt) {
  make();
  ASSERT_EQ(read(0, 2 * kChunk, 1), Taken::kYes);
  ASSERT_EQ(read(0, 2 * kChunk, 2), Taken::kYes);
  mount_.finish(0);
  mount_.finish_with(0, -EREMOTEIO);
  mount_.finish_with(0, -EREMOTEIO);
  mount_.finish(0);
  const auto done = drain();
  ASSERT_EQ(done.size(), 2u);
  EXPECT_TRUE(same(done[0], 1, kChunk));
  EXPECT_TRUE(same(done[1], 2, -EREMOTEIO));
}

TEST_F(TransfersTest, ACountBeyondTheRequestIsAnError) {
  make();
  ASSERT_EQ(read(0, 4096, 1), Taken::kYes);
  mount_.finish_with(0, 4097);
  const auto done = drain();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_TRUE(same(done[0], 1, -EIO));
}

TEST_F(TransfersTest, ACompletionThatComesTwiceIsCountedAndIgnored) {
  make();
  ASSERT_EQ(read(0, 4096, 1), Taken::kYes);
  const FakeIo io = mount_.pending[0];
  mount_.finish(0);
  EXPECT_EQ(drain().size(), 1u);
  // Its slot is another read's now.
  ASSERT_EQ(read(4096, 4096, 2), Taken::kYes);
  mount_.repeat(io.ring, io.user, 4096);
  EXPECT_TRUE(drain().empty());
  EXPECT_EQ(counters_.unknown_completions.load(), 1u);
  mount_.finish_all();
  const auto done = drain();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_TRUE(same(done[0], 2, 4096));
}

TEST_F(TransfersTest, EachClassHasItsOwnRing) {
  make();
  ASSERT_EQ(start(TransferClass::kDemandRead, 0, page(4096), 1), Taken::kYes);
  ASSERT_EQ(start(TransferClass::kPrefetch, 0, page(4096, 131072), 2), Taken::kYes);
  ASSERT_EQ(start(TransferClass::kWrite, 0, page(4096, 262144), 3), Taken::kYes);
  EXPECT_NE(mount_.pending[0].ring, mount_.pending[1].ring);
  EXPECT_NE(mount_.pending[1].ring, mount_.pending[2].ring);
  EXPECT_TRUE(mount_.pending[1].read);
  EXPECT_FALSE(mount_.pending[2].read);
  mount_.finish_all();
  EXPECT_EQ(drain().size(), 3u);
}

TEST_F(TransfersTest, WhatWasPreparedIsSubmittedOnceATurn) {
  make();
  ASSERT_EQ(read(0, 3 * kChunk, 1), Taken::kYes);
  ASSERT_EQ(read(0, kChunk, 2), Taken::kYes);
  EXPECT_EQ(mount_.submits, 0u);
  transfers_->submit();
  EXPECT_EQ(mount_.submits, 1u);
  transfers_->submit();
  EXPECT_EQ(mount_.submits, 1u);
  mount_.finish_all();
  EXPECT_EQ(drain().size(), 2u);
}

TEST_F(TransfersTest, ARingThatTakesNoMoreIsAskedAgainAfterACompletionOnly) {
  make();
  int asked = 0;
  mount_.prepare_error = [&] { return ++asked > 1 ? -EAGAIN : 0; };
  ASSERT_EQ(read(0, 4096, 1), Taken::kYes);
  EXPECT_EQ(read(0, 4096, 2), Taken::kFull);
  EXPECT_EQ(asked, 2);
  // Whatever the own count says: 1 of 64 is outstanding.
  EXPECT_EQ(read(0, 4096, 2), Taken::kFull);
  EXPECT_TRUE(drain().empty());
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(reads().full.load(), 1u);
  mount_.prepare_error = nullptr;
  mount_.finish_all();
  EXPECT_EQ(drain().size(), 1u);
  EXPECT_EQ(read(0, 4096, 2), Taken::kYes);
}

TEST_F(TransfersTest, ATransferThatFindsHalfOfItsRoomGoesOnLater) {
  make(2);
  ASSERT_EQ(read(0, 5 * kChunk, 1), Taken::kYes);
  EXPECT_EQ(mount_.pending.size(), 2u);
  EXPECT_EQ(read(0, kChunk, 2), Taken::kFull) << "it would overtake";
  std::vector<TransferPath::Completion> done;
  for (int i = 0; i < 5; ++i) {
    ASSERT_FALSE(mount_.pending.empty());
    mount_.finish(0);
    for (const auto& one : drain()) done.push_back(one);
  }
  ASSERT_EQ(done.size(), 1u);
  EXPECT_TRUE(same(done[0], 1, 5 * kChunk));
  EXPECT_TRUE(holds_file(page(5 * kChunk), 0));
}

TEST_F(TransfersTest, ARequestThatIsRefusedEndsItsTransfer) {
  make();
  mount_.prepare_error = [] { return -EBADF; };
  ASSERT_EQ(read(0, 3 * kChunk, 1), Taken::kYes);
  const auto done = drain();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_TRUE(same(done[0], 1, -EBADF));
  EXPECT_EQ(transfers_->in_flight(), 0u);
}

TEST_F(TransfersTest, AFileThatIsNotRegisteredIsTheKernels) {
  make();
  EXPECT_NE(transfers_->remove_file(file_.get()), nullptr);
  EXPECT_EQ(transfers_->remove_file(file_.get()), nullptr);
  EXPECT_EQ(read(0, 4096, 1), Taken::kNotMine);
}

TEST_F(TransfersTest, UnregisteredMemoryIsReadThroughStaging) {
  make();
  const auto memory = page_memory(12288);
  ASSERT_EQ(start(TransferClass::kDemandRead, 0, {memory.get(), 12288}, 1), Taken::kYes);
  // Two buffers of 4 KiB: the third request waits.
  EXPECT_EQ(mount_.pending.size(), 2u);
  mount_.finish_all();
  EXPECT_TRUE(drain().empty());
  mount_.finish_all();
  const auto done = drain();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_TRUE(same(done[0], 1, 12288));
  EXPECT_TRUE(holds_file({memory.get(), 12288}, 0));
  EXPECT_EQ(reads().staged_bytes.load(), 12288u);
}

TEST_F(TransfersTest, WithoutStagingUnregisteredMemoryIsTheKernels) {
  make(64, 0);
  const auto memory = page_memory(4096);
  EXPECT_EQ(start(TransferClass::kDemandRead, 0, {memory.get(), 4096}, 1), Taken::kNotMine);
}

// The server may run it at once: the bytes are final before prepare.
TEST_F(TransfersTest, AWriteThatRunsBeforeItsSubmitIsRight) {
  mount_.mode = FakeMount::Mode::kAtPrepare;
  make();
  const auto memory = page_memory(8192);
  std::memset(memory.get(), 0x5a, 8192);
  ASSERT_EQ(start(TransferClass::kWrite, 4096, {memory.get(), 8192}, 1), Taken::kYes);
  EXPECT_TRUE(holds_file({memory.get(), 8192}, 4096));
  ASSERT_EQ(drain().size(), 1u);
}

TEST_F(TransfersTest, AProbeReadsNothingAndSaysWhetherTheMemoryCanBeUsed) {
  make();
  alignas(4096) static std::byte other[8192];
  mount_.useless_memory.insert("/dev/shm/useless");
  const auto good = client_->register_memory("/dev/shm/good", page(8192)).take();
  const auto bad = client_->register_memory("/dev/shm/useless", other).take();
  std::memset(page(8192).data(), 0x77, 8192);
  std::vector<int64_t> results;
  const auto note = [&](int64_t result) { results.push_back(result); };
  ASSERT_TRUE(transfers_->probe(*good, file_.get(), note));
  ASSERT_TRUE(transfers_->probe(*bad, file_.get(), note));
  EXPECT_FALSE(transfers_->probe(*good, -1, note));
  mount_.finish_all();
  EXPECT_TRUE(drain().empty());
  EXPECT_EQ(results, (std::vector<int64_t>{0, -EACCES}));
  EXPECT_EQ(page(8192)[0], std::byte{0x77});
}

TEST_F(TransfersTest, WhatIsMovedIsCountedByClass) {
  make();
  ASSERT_EQ(read(0, 4096, 1), Taken::kYes);
  clock_.advance(500'000);
  mount_.finish_all();
  drain();
  EXPECT_EQ(reads().transfers.load(), 1u);
  EXPECT_EQ(reads().bytes.load(), 4096u);
  EXPECT_EQ(reads().latency_ns.load(), 500'000u);
  EXPECT_EQ(reads().latency_buckets[2].load(), 1u);  // up to 1 ms
  EXPECT_EQ(counters_.of(TransferClass::kPrefetch).transfers.load(), 0u);
}

}  // namespace
}  // namespace kvsidecar::testing
