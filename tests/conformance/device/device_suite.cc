// SPDX-License-Identifier: Apache-2.0
// Goal: any device can stand where any other stands. Method: each rule of device.h, seen only
// through its interface and through the engine's own view of its memory.
#include "tests/conformance/device/device_suite.h"

#include <chrono>
#include <cstring>
#include <map>

#include "sidecar/digest.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kBytes = 2 * 1024 * 1024;

std::vector<std::byte> pattern(uint64_t count, uint64_t seed) {
  std::vector<std::byte> bytes(count);
  for (uint64_t i = 0; i < count; ++i)
    bytes[i] = static_cast<std::byte>((i * 197 + (i >> 8) * 31 + seed * 61 + 3) & 0xff);
  return bytes;
}

// A device with one allocation of kBytes, imported, and a queue.
class Bench {
 public:
  explicit Bench(std::unique_ptr<DeviceSubject> (*make)())
      : subject(make()), engine(subject->allocate(kBytes)), host(subject->host(kBytes)) {
    region = import(0, kBytes);
    queue = subject->device().make_queue();
  }
  ~Bench() {
    if (region) subject->device().close(std::move(region));
  }
  std::unique_ptr<Region> import(uint64_t offset, uint64_t bytes) {
    Result<std::unique_ptr<Region>> imported =
        subject->device().import(engine->handle(offset, bytes));
    EXPECT_TRUE(imported.ok()) << imported.status().text();
    return imported.take();
  }
  // Ends of `count` batches, by ticket. A device may take its time, but not for ever.
  std::map<uint64_t, Code> wait(size_t count) {
    std::map<uint64_t, Code> ended;
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (ended.size() < count && std::chrono::steady_clock::now() < limit) {
      CopyQueue::Done done[4];
      const size_t got = queue->poll(done);
      for (size_t i = 0; i < got; ++i) ended[done[i].ticket] = done[i].status;
    }
    EXPECT_EQ(ended.size(), count);
    return ended;
  }
  Code run(Direction direction, std::vector<Piece> pieces) {
    const uint64_t ticket = queue->submit(direction, pieces, {});
    return wait(1)[ticket];
  }

  std::unique_ptr<DeviceSubject> subject;
  std::unique_ptr<EngineAllocation> engine;
  std::byte* host;
  std::unique_ptr<Region> region;
  std::unique_ptr<CopyQueue> queue;
};

TEST_P(DeviceConformance, HasANameAndARegionKnowsItsSize) {
  Bench bench(GetParam());
  EXPECT_STRNE(bench.subject->device().name(), "");
  EXPECT_EQ(bench.region->bytes(), kBytes);
}

TEST_P(DeviceConformance, BytesStoredAndLoadedAgainAreTheSame) {
  Bench bench(GetParam());
  const std::vector<std::byte> bytes = pattern(kBytes, 1);
  bench.engine->write(0, bytes);
  ASSERT_EQ(bench.run(Direction::kStore, {{bench.host, bench.region.get(), 0, kBytes}}), Code::kOk);
  EXPECT_EQ(std::memcmp(bench.host, bytes.data(), kBytes), 0);
  bench.engine->write(0, std::vector<std::byte>(kBytes));
  ASSERT_EQ(bench.run(Direction::kLoad, {{bench.host, bench.region.get(), 0, kBytes}}), Code::kOk);
  EXPECT_EQ(bench.engine->read(0, kBytes), bytes);
}

TEST_P(DeviceConformance, ScatteredPiecesGoWhereTheyBelongAndNowhereElse) {
  Bench bench(GetParam());
  constexpr uint64_t kRun = 5000, kStep = 7001, kRuns = 200;
  const std::vector<std::byte> canary(kBytes, std::byte{0xcc});
  bench.engine->write(0, canary);
  const std::vector<std::byte> bytes = pattern(kRun * kRuns, 2);
  std::memcpy(bench.host, bytes.data(), bytes.size());
  std::vector<Piece> pieces;
  for (uint64_t i = 0; i < kRuns; ++i)
    pieces.push_back({bench.host + i * kRun, bench.region.get(), i * kStep, kRun});
  ASSERT_EQ(bench.run(Direction::kLoad, pieces), Code::kOk);
  std::vector<std::byte> expected = canary;
  for (uint64_t i = 0; i < kRuns; ++i) std::memcpy(&expected[i * kStep], &bytes[i * kRun], kRun);
  EXPECT_EQ(bench.engine->read(0, kBytes), expected);
}

TEST_P(DeviceConformance, ADeviceThatHashesGivesTheLeavesOfWhatItStored) {
  Bench bench(GetParam());
  if (!bench.subject->device().hashes()) GTEST_SKIP() << "this device leaves hashing to others";
  const std::vector<std::byte> bytes = pattern(kBytes, 3);
  bench.engine->write(0, bytes);
  constexpr uint64_t kPart = 10 * kLeafBytes + 9, kRun = 3 * 16384 + 1;
  std::vector<Piece> pieces;
  for (uint64_t at = 0; at < kPart; at += kRun)
    pieces.push_back({bench.host + at, bench.region.get(), at, std::min(kRun, kPart - at)});
  std::vector<uint64_t> leaves(leaf_count(kPart));
  bench.queue->submit(Direction::kStore, pieces, leaves);
  bench.wait(1);
  EXPECT_EQ(part_digest(kPart, leaves, 8), part_digest(Bytes(bytes).first(kPart), 8));
}

TEST_P(DeviceConformance, ARegionBeginsAtItsOffsetInTheAllocation) {
  Bench bench(GetParam());
  const std::vector<std::byte> bytes = pattern(kBytes, 4);
  bench.engine->write(0, bytes);
  for (const uint64_t offset : {uint64_t{4096}, uint64_t{65536}, uint64_t{12345}}) {
    std::unique_ptr<Region> part = bench.import(offset, kBytes - offset);
    EXPECT_EQ(part->bytes(), kBytes - offset);
    ASSERT_EQ(bench.run(Direction::kStore, {{bench.host, part.get(), 7, 1000}}), Code::kOk);
    EXPECT_EQ(std::memcmp(bench.host, &bytes[offset + 7], 1000), 0);
    bench.subject->device().close(std::move(part));
  }
}

TEST_P(DeviceConformance, TheLastByteOfARegionCanBeCopied) {
  Bench bench(GetParam());
  bench.engine->write(kBytes - 1, std::vector<std::byte>{std::byte{0x7e}});
  ASSERT_EQ(bench.run(Direction::kStore, {{bench.host, bench.region.get(), kBytes - 1, 1}}),
            Code::kOk);
  EXPECT_EQ(bench.host[0], std::byte{0x7e});
}

// O11-09
TEST_P(DeviceConformance, TheSameMemoryImportedTwiceLivesTwice) {
  Bench bench(GetParam());
  std::unique_ptr<Region> second = bench.import(0, kBytes);
  const std::vector<std::byte> bytes = pattern(kBytes, 5);
  bench.engine->write(0, bytes);
  bench.subject->device().close(std::move(bench.region));
  ASSERT_EQ(bench.run(Direction::kStore, {{bench.host, second.get(), 0, kBytes}}), Code::kOk);
  EXPECT_EQ(std::memcmp(bench.host, bytes.data(), kBytes), 0);
  bench.subject->device().close(std::move(second));
}

TEST_P(DeviceConformance, MemoryStaysUntilCloseWhenItsExporterIsGone) {
  Bench bench(GetParam());
  const std::vector<std::byte> bytes = pattern(kBytes, 6);
  bench.engine->write(0, bytes);
  bench.engine.reset();
  ASSERT_EQ(bench.run(Direction::kStore, {{bench.host, bench.region.get(), 0, kBytes}}), Code::kOk);
  EXPECT_EQ(std::memcmp(bench.host, bytes.data(), kBytes), 0);
}

TEST_P(DeviceConformance, EachBatchIsReportedOnceByItsTicket) {
  Bench bench(GetParam());
  const std::vector<std::byte> bytes = pattern(kBytes, 7);
  bench.engine->write(0, bytes);
  std::vector<std::vector<Piece>> batches;
  for (uint64_t i = 0; i < 8; ++i)
    batches.push_back({{bench.host + i * 4096, bench.region.get(), i * 8192, 4096}});
  std::vector<uint64_t> tickets;
  for (const auto& batch : batches)
    tickets.push_back(bench.queue->submit(Direction::kStore, batch, {}));
  const std::map<uint64_t, Code> ended = bench.wait(batches.size());
  for (size_t i = 0; i < tickets.size(); ++i) {
    ASSERT_EQ(ended.count(tickets[i]), 1u);
    EXPECT_EQ(ended.at(tickets[i]), Code::kOk);
    EXPECT_EQ(std::memcmp(bench.host + i * 4096, &bytes[i * 8192], 4096), 0);
  }
  CopyQueue::Done done[1];
  EXPECT_EQ(bench.queue->poll(done), 0u);
}

TEST_P(DeviceConformance, TwoQueuesKeepTheirTicketsApart) {
  Bench bench(GetParam());
  std::unique_ptr<CopyQueue> other = bench.subject->device().make_queue();
  const std::vector<Piece> pieces = {{bench.host, bench.region.get(), 0, 4096}};
  bench.queue->submit(Direction::kStore, pieces, {});
  CopyQueue::Done done[4];
  EXPECT_EQ(other->poll(done), 0u);
  EXPECT_EQ(bench.wait(1).begin()->second, Code::kOk);
}

TEST_P(DeviceConformance, AnEchoProvesTheMappingBothWays) {
  Bench bench(GetParam());
  uint64_t nonce = 0xfeedfacecafebeef;
  std::vector<std::byte> bytes(8);
  std::memcpy(bytes.data(), &nonce, 8);
  bench.engine->write(4096, bytes);
  EXPECT_TRUE(bench.subject->device().echo(*bench.region, 4096, nonce, 99).ok());
  const std::vector<std::byte> answer = bench.engine->read(4096, 8);
  std::memcpy(&nonce, answer.data(), 8);
  EXPECT_EQ(nonce, 99u);
}

TEST_P(DeviceConformance, AnEchoInSomebodyElsesMemoryIsFoundAndWritesNothing) {
  Bench bench(GetParam());
  const std::vector<std::byte> bytes = pattern(kBytes, 8);
  bench.engine->write(0, bytes);
  EXPECT_EQ(bench.subject->device().echo(*bench.region, 4096, 1, 99).code(), Code::kStaleMapping);
  EXPECT_EQ(bench.engine->read(0, kBytes), bytes);
}

TEST_P(DeviceConformance, ABadHandleIsRefusedWithASentenceAndDisturbsNothing) {
  Bench bench(GetParam());
  EXPECT_EQ(bench.subject->device().import(MemoryHandle{}).status().code(), Code::kInvalid);
  const Result<std::unique_ptr<Region>> too_long =
      bench.subject->device().import(bench.engine->handle(4096, kBytes));
  EXPECT_EQ(too_long.status().code(), Code::kInvalid);
  EXPECT_NE(too_long.status().text(), "");
  EXPECT_EQ(bench.run(Direction::kStore, {{bench.host, bench.region.get(), 0, kBytes}}), Code::kOk);
}

}  // namespace
}  // namespace kvsidecar
