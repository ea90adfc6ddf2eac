// SPDX-License-Identifier: Apache-2.0
// Goal: the host device copies exactly, in no order that anybody could rely on, survives whatever
// the client does to its file, and catches our own misuse. Method: an engine's memfd with the
// test's own mapping beside the device's; files cut short and punched between submit and poll.
#include "sidecar/device/host_device.h"

#include <fcntl.h>

#include "sidecar/digest.h"
#include "tests/unit/device/device_fixtures.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kBytes = 4 * 1024 * 1024;

class HostDeviceTest : public ::testing::Test {
 protected:
  HostDeviceTest() : engine_(kBytes), host_(kBytes) { import(device_); }
  ~HostDeviceTest() override {
    if (region_) device_.close(std::move(region_));
  }
  void import(HostDevice& device) {
    Result<std::unique_ptr<Region>> region = device.import(engine_.handle());
    if (!region.ok()) ADD_FAILURE() << region.status().text();
    KV_CHECK(region.ok());
    region_ = region.take();
    queue_ = device.make_queue();
  }
  Piece piece(uint64_t at, uint64_t bytes) { return {host_.data() + at, region_.get(), at, bytes}; }
  std::vector<Piece> pieces_of(uint64_t bytes_each) {
    std::vector<Piece> pieces;
    for (uint64_t at = 0; at < kBytes; at += bytes_each)
      pieces.push_back(piece(at, std::min(bytes_each, kBytes - at)));
    return pieces;
  }
  Code run(Direction direction, std::span<const Piece> pieces, std::span<uint64_t> leaves = {}) {
    const uint64_t ticket = queue_->submit(direction, pieces, leaves);
    CopyQueue::Done done{};
    EXPECT_EQ(queue_->poll({&done, 1}), 1u);
    EXPECT_EQ(done.ticket, ticket);
    return done.status;
  }

  HostDevice device_{1};
  EngineMemory engine_;
  std::vector<std::byte> host_;
  std::unique_ptr<Region> region_;
  std::unique_ptr<CopyQueue> queue_;
};

TEST_F(HostDeviceTest, NothingIsTouchedBeforePoll) {
  fill_pattern(engine_.data(), kBytes, 1);
  const Piece all = piece(0, kBytes);
  queue_->submit(Direction::kStore, {&all, 1}, {});
  EXPECT_TRUE(all_equal(host_.data(), kBytes, std::byte{0}));
  CopyQueue::Done done{};
  EXPECT_EQ(queue_->poll({&done, 1}), 1u);
  EXPECT_TRUE(is_pattern(host_.data(), kBytes, 1));
}

TEST_F(HostDeviceTest, LeavesAreTheDigestsOfThePartWhateverItsRuns) {
  fill_pattern(engine_.data(), kBytes, 2);
  for (const uint64_t run_bytes : {100'000ull, 4096ull, 16384ull, 65536ull, 12345ull, 2097152ull}) {
    std::fill(host_.begin(), host_.end(), std::byte{0});
    const std::vector<Piece> pieces = pieces_of(run_bytes);
    std::vector<uint64_t> leaves(leaf_count(kBytes));
    ASSERT_EQ(run(Direction::kStore, pieces, leaves), Code::kOk);
    EXPECT_TRUE(is_pattern(host_.data(), kBytes, 2));
    EXPECT_EQ(part_digest(kBytes, leaves, 5), part_digest(host_, 5)) << run_bytes;
  }
}

TEST_F(HostDeviceTest, TheLastLeafMayBeShort) {
  fill_pattern(engine_.data(), kBytes, 3);
  const Piece part = piece(0, 3 * kLeafBytes + 1);
  std::vector<uint64_t> leaves(4);
  ASSERT_EQ(run(Direction::kStore, {&part, 1}, leaves), Code::kOk);
  EXPECT_EQ(leaves[3], leaf_digest(&host_[3 * kLeafBytes], 1));
}

// Two pieces write the same byte: only one of them can be last, and which one changes.
TEST_F(HostDeviceTest, TheOrderInsideABatchIsShuffled) {
  std::memset(engine_.data(), 1, 4096);
  std::memset(engine_.data() + 4096, 2, 4096);
  const std::vector<Piece> both = {{host_.data(), region_.get(), 0, 4096},
                                   {host_.data(), region_.get(), 4096, 4096}};
  bool first_won = false, second_won = false;
  for (int i = 0; i < 64; ++i) {
    ASSERT_EQ(run(Direction::kStore, both), Code::kOk);
    (host_[0] == std::byte{1} ? first_won : second_won) = true;
  }
  EXPECT_TRUE(first_won);
  EXPECT_TRUE(second_won);
}

TEST_F(HostDeviceTest, TheSameSeedGivesTheSameOrder) {
  std::vector<std::vector<std::byte>> seen;
  for (int round = 0; round < 2; ++round) {
    HostDevice device(99);
    Result<std::unique_ptr<Region>> region = device.import(engine_.handle());
    if (!region.ok()) ADD_FAILURE() << region.status().text();
    ASSERT_TRUE(region.ok());
    std::vector<Piece> racing;
    for (uint64_t i = 0; i < 8; ++i) {
      engine_.data()[i] = static_cast<std::byte>(i);
      racing.push_back({host_.data(), region->get(), i, 1});
    }
    std::unique_ptr<CopyQueue> queue = device.make_queue();
    seen.emplace_back();
    for (int i = 0; i < 32; ++i) {
      CopyQueue::Done done{};
      queue->submit(Direction::kStore, racing, {});
      queue->poll({&done, 1});
      seen.back().push_back(host_[0]);
    }
    device.close(region.take());
  }
  EXPECT_EQ(seen[0], seen[1]);
}

TEST_F(HostDeviceTest, AFileCutShortBeforeACopyIsAMemoryFaultAndTheNextRegionWorks) {
  for (const Direction direction : {Direction::kStore, Direction::kLoad}) {
    EngineMemory victim(kBytes);
    Result<std::unique_ptr<Region>> region = device_.import(victim.handle());
    ASSERT_TRUE(region.ok());
    const std::vector<Piece> pieces = {{host_.data(), region->get(), 0, kBytes}};
    queue_->submit(direction, pieces, {});
    ASSERT_EQ(::ftruncate(victim.fd.get(), kBytes / 2), 0);
    CopyQueue::Done done{};
    ASSERT_EQ(queue_->poll({&done, 1}), 1u);
    EXPECT_EQ(done.status, Code::kMemoryFault);
    device_.close(region.take());
    EXPECT_EQ(run(direction, pieces_of(kBytes)), Code::kOk);
  }
}

TEST_F(HostDeviceTest, AFileCutShortIsAMemoryFaultWhileHashingToo) {
  ASSERT_EQ(::ftruncate(engine_.fd.get(), kBytes - kLeafBytes), 0);
  std::vector<uint64_t> leaves(leaf_count(kBytes));
  EXPECT_EQ(run(Direction::kStore, pieces_of(16384), leaves), Code::kMemoryFault);
}

TEST_F(HostDeviceTest, APunchedHoleIsCopiedAsZerosWithItsOwnDigest) {
  fill_pattern(engine_.data(), kBytes, 4);
  ASSERT_EQ(::fallocate(engine_.fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, kLeafBytes,
                        kLeafBytes),
            0);
  std::vector<uint64_t> leaves(leaf_count(kBytes));
  ASSERT_EQ(run(Direction::kStore, pieces_of(kBytes), leaves), Code::kOk);
  EXPECT_TRUE(all_equal(&host_[kLeafBytes], kLeafBytes, std::byte{0}));
  EXPECT_EQ(part_digest(kBytes, leaves, 1), part_digest(host_, 1));
}

TEST_F(HostDeviceTest, TheNthCopyFailsAndTheNextOneWorks) {
  NthFault faults("device.copy", 2, EIO);
  HostDevice device(1, faults);
  device_.close(std::move(region_));
  import(device);
  fill_pattern(engine_.data(), kBytes, 5);
  EXPECT_EQ(run(Direction::kStore, pieces_of(65536)), Code::kOk);
  EXPECT_EQ(run(Direction::kStore, pieces_of(65536)), Code::kInternal);
  EXPECT_EQ(run(Direction::kStore, pieces_of(65536)), Code::kOk);
  EXPECT_TRUE(is_pattern(host_.data(), kBytes, 5));
  device.close(std::move(region_));
}

TEST_F(HostDeviceTest, ALostDeviceFailsEveryLaterCopy) {
  NthFault faults("device.copy", 1, ENODEV);
  HostDevice device(1, faults);
  device_.close(std::move(region_));
  import(device);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run(Direction::kStore, pieces_of(65536)), Code::kInternal);
  device.close(std::move(region_));
}

TEST_F(HostDeviceTest, AnEchoThatFindsTheNonceAnswersIt) {
  const uint64_t nonce = 0x1122334455667788;
  std::memcpy(engine_.data() + 77, &nonce, 8);
  EXPECT_TRUE(device_.echo(*region_, 77, nonce, 42).ok());
  uint64_t answer = 0;
  std::memcpy(&answer, engine_.data() + 77, 8);
  EXPECT_EQ(answer, 42u);
}

TEST_F(HostDeviceTest, AnEchoThatFindsAnotherValueIsAStaleMappingAndWritesNothing) {
  EXPECT_EQ(device_.echo(*region_, 0, 5, 42).code(), Code::kStaleMapping);
  EXPECT_TRUE(all_equal(engine_.data(), 4096, std::byte{0}));
}

TEST_F(HostDeviceTest, AnEchoOutsideTheRegionOrIntoVanishedMemoryIsAnError) {
  EXPECT_EQ(device_.echo(*region_, kBytes - 7, 0, 1).code(), Code::kInvalid);
  EXPECT_EQ(device_.echo(*region_, ~uint64_t{0}, 0, 1).code(), Code::kInvalid);
  ASSERT_EQ(::ftruncate(engine_.fd.get(), 4096), 0);
  EXPECT_EQ(device_.echo(*region_, kBytes - 8, 0, 1).code(), Code::kMemoryFault);
}

TEST_F(HostDeviceTest, AnInjectedEchoFailureIsReportedOnce) {
  NthFault faults("device.echo", 1, EIO);
  HostDevice device(1, faults);
  device_.close(std::move(region_));
  import(device);
  EXPECT_EQ(device.echo(*region_, 0, 0, 1).code(), Code::kInternal);
  EXPECT_TRUE(device.echo(*region_, 0, 0, 1).ok());
  device.close(std::move(region_));
}

using HostDeviceDeathTest = HostDeviceTest;

TEST_F(HostDeviceDeathTest, ACopyThatNamesAClosedRegionIsOurBugAndCaught) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::vector<Piece> pieces = pieces_of(kBytes);
  device_.close(std::move(region_));
  EXPECT_DEATH(queue_->submit(Direction::kStore, pieces, {}), "check failed");
}

TEST_F(HostDeviceDeathTest, ClosingARegionThatABatchUsesIsOurBugAndCaught) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::vector<Piece> pieces = pieces_of(kBytes);
  queue_->submit(Direction::kStore, pieces, {});
  EXPECT_DEATH(device_.close(std::move(region_)), "check failed");
  CopyQueue::Done done{};
  EXPECT_EQ(queue_->poll({&done, 1}), 1u);
}

TEST_F(HostDeviceDeathTest, APieceOutsideItsRegionIsOurBugAndCaught) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Piece beyond = piece(kBytes - 10, 11);
  EXPECT_DEATH(queue_->submit(Direction::kStore, {&beyond, 1}, {}), "check failed");
}

}  // namespace
}  // namespace kvsidecar
