// SPDX-License-Identifier: Apache-2.0
// Goal: I/O through the rings moves the right bytes and ends with the daemon's results; what runs
// when is as upstream. Method: a whole server in one thread, stepped by hand.
#include <cerrno>

#include "tests/usrbio/core/scene.h"

namespace kvsidecar::fake3fs {
namespace {

class ServerJobs : public Scene {
 protected:
  ClientRing reads = make_ring(10, 8, {.for_read = true});
  ClientRing writes = make_ring(11, 8, {.for_read = false});
};

TEST_F(ServerJobs, WhatIsWrittenIsRead) {
  fill_buffer('w');
  writes->prepare(request(1, 5, 30));
  submit();
  run();
  EXPECT_EQ(taken(writes), "1:30");
  fill_buffer('.');
  reads->prepare(request(2, 0, 40, 100));
  submit();
  run();
  EXPECT_EQ(taken(reads), "2:35") << "the gap in the chunk is zeros, beyond the end is nothing";
  EXPECT_EQ(buffer_text(100, 40), std::string(5, '\0') + std::string(30, 'w') + ".....");
  EXPECT_EQ(counts.get("read_bytes"), 35);
  EXPECT_EQ(counts.get("written_bytes"), 30);
}

TEST_F(ServerJobs, NothingRunsBeforeASubmitOfItsPriority) {
  store(0, "abcd");
  reads->prepare(request(1, 0, 4));
  run();
  server.idle(Priority::kNormal);
  submit(Priority::kHigh);
  submit(Priority::kLow);
  run();
  EXPECT_EQ(taken(reads), "");
  submit();
  run();
  EXPECT_EQ(taken(reads), "1:4");
}

TEST_F(ServerJobs, ASubmitOfAnotherRingStartsWhatIsPrepared) {
  store(0, "abcd");
  reads->prepare(request(1, 0, 4));
  writes->prepare(request(2, 100, 4));
  submit();  // meant for one of them; the daemon can't tell
  run();
  EXPECT_EQ(taken(reads), "1:4");
  EXPECT_EQ(taken(writes), "2:4");
}

TEST_F(ServerJobs, AWorkerLooksAgainAtTheRingOfAJobItFinished) {
  store(0, "abcd");
  reads->prepare(request(1, 0, 4));
  submit();
  reads->prepare(request(2, 0, 4));
  run();
  EXPECT_EQ(taken(reads), "1:4 2:4") << "the second was never submitted";
  ASSERT_TRUE(faults.set("early.again", "off").ok());
  reads->prepare(request(3, 0, 4));
  submit();
  reads->prepare(request(4, 0, 4));
  run();
  EXPECT_EQ(taken(reads), "3:4");
}

TEST_F(ServerJobs, WhereAFaultWantsItPreparedIoRunsByItself) {
  store(0, "abcd");
  ASSERT_TRUE(faults.set("early.idle", "on").ok());
  reads->prepare(request(1, 0, 4));
  server.idle(Priority::kNormal);
  run();
  EXPECT_EQ(taken(reads), "1:4");
}

TEST_F(ServerJobs, BadRequestsFailAloneWithTheirErrno) {
  store(0, "abcd");
  ASSERT_EQ(server.add_buffer(id_of(3), memory, 64, nullptr), 0);
  auto with = [](HandRing::Request changed, auto change) {
    change(changed);
    return changed;
  };
  reads->prepare(request(1, 0, 4));
  reads->prepare(with(request(2, 0, 4), [](auto& r) { r.buffer = id_of(9); }));
  reads->prepare(with(request(3, 0, 4), [](auto& r) { r.buffer_offset = kBufferBytes - 3; }));
  reads->prepare(with(request(4, 0, 4), [](auto& r) { r.buffer_offset = UINT64_MAX; }));
  reads->prepare(request(5, 0, 0));
  reads->prepare(with(request(6, 0, 4, 62), [](auto& r) { r.buffer = id_of(3); }));
  reads->prepare(with(request(7, 0, 4, 200), [](auto& r) { r.inode = 5; }));
  reads->prepare(with(request(8, 0, UINT64_MAX, 8), [](auto&) {}));
  submit();
  run();
  EXPECT_EQ(taken(reads), "1:4 2:-22 3:-22 4:-22 5:-22 6:-22 7:-9 8:-22");
  reads->prepare(request(9, UINT64_MAX - 2, 4));
  submit();
  run();
  EXPECT_EQ(taken(reads), "9:-27");
}

TEST_F(ServerJobs, OverlappingTargetsFailAllReadsOfTheJobAndOnlyOfTheJob) {
  store(0, "abcdefgh");
  fill_buffer('.');
  reads->prepare(request(1, 0, 4, 0));
  reads->prepare(request(2, 0, 4, 3));
  reads->prepare(request(3, 0, 4, 100));
  submit();
  run();
  EXPECT_EQ(taken(reads), "1:-5 2:-5 3:-5");
  EXPECT_EQ(buffer_text(0, 8), "........");
  ClientRing single = make_ring(12, 8, {.io_depth = -1});
  single->prepare(request(4, 0, 4, 0));
  single->prepare(request(5, 0, 4, 3));
  submit();
  run();
  EXPECT_EQ(taken(single), "4:4 5:4") << "jobs of their own";
}

TEST_F(ServerJobs, TouchingTargetsAndOverlappingWritesAreFine) {
  store(0, "abcdefgh");
  reads->prepare(request(1, 0, 4, 4));
  reads->prepare(request(2, 4, 4, 0));
  writes->prepare(request(3, 32, 4, 0));
  writes->prepare(request(4, 48, 4, 2));
  submit();
  run();
  EXPECT_EQ(taken(reads), "1:4 2:4");
  EXPECT_EQ(taken(writes), "3:4 4:4");
  EXPECT_EQ(buffer_text(0, 8), "efghabcd");
}

TEST_F(ServerJobs, TheFoldedHoleFaultReachesTheClientAndItsSwitchEndsIt) {
  store(64, std::string(16, 'x'));
  const auto lie = [&] {
    reads->prepare(request(1, 0, 16, 0));
    reads->prepare(request(2, 48, 48, 100));  // missing, stored, missing
    submit();
    run();
    return taken(reads);
  };
  fill_buffer('.');
  EXPECT_EQ(lie(), "1:0 2:48") << "complete, it says";
  EXPECT_EQ(buffer_text(100, 48),
            std::string(16, '\0') + std::string(16, 'x') + std::string(16, '.'));
  ASSERT_TRUE(faults.set("holes.folded", "off").ok());
  EXPECT_EQ(lie(), "1:0 2:32");
}

TEST_F(ServerJobs, ARingThatForbidsHolesEndsWithNoData) {
  store(0, "a");
  store(32, "b");
  ClientRing strict = make_ring(12, 8, {.flags = kFlagForbidHoles});
  strict->prepare(request(1, 0, 33));
  strict->prepare(request(2, 32, 16, 100));
  submit();
  run();
  EXPECT_EQ(taken(strict), "1:-61 2:1");
}

TEST_F(ServerJobs, HighPrioritiesRunFirst) {
  store(0, "abcd");
  ClientRing low = make_ring(12, 4, {.priority = Priority::kLow});
  ClientRing high = make_ring(13, 4, {.priority = Priority::kHigh});
  low->prepare(request(1, 0, 4));
  high->prepare(request(2, 0, 4));
  submit(Priority::kLow);
  submit(Priority::kHigh);
  ASSERT_TRUE(server.step());
  EXPECT_EQ(taken(low), "");
  EXPECT_EQ(taken(high), "2:4");
  run();
  EXPECT_EQ(taken(low), "1:4");
}

TEST_F(ServerJobs, TablesHaveTheLimitsThatAreSet) {
  ASSERT_TRUE(faults.set("iovs.max", "2").ok());
  ASSERT_TRUE(faults.set("rings.max", "2").ok());
  EXPECT_EQ(server.add_buffer(id_of(1), memory, 0, nullptr), -EEXIST);
  EXPECT_EQ(server.add_buffer(id_of(4), memory, kBufferBytes + 1, nullptr), -EINVAL);
  EXPECT_EQ(server.add_buffer(id_of(4), memory, kBufferBytes, nullptr), 0);
  EXPECT_EQ(server.add_buffer(id_of(5), memory, 0, nullptr), -EMFILE);
  std::vector<uint64_t> words(ring_file_bytes(4) / 8);
  const auto bytes = std::as_writable_bytes(std::span(words));
  EXPECT_EQ(server.add_ring(id_of(20), bytes, {}, nullptr), -EMFILE);
  EXPECT_EQ(server.remove_ring(id_of(20)), -ENOENT);
  EXPECT_EQ(server.remove_ring(writes.id), 0);
  EXPECT_EQ(server.add_ring(id_of(20), bytes, {.io_depth = 5}, nullptr), -EINVAL);
  EXPECT_EQ(server.add_ring(id_of(20), bytes, {.io_depth = 4}, nullptr), 0);
  EXPECT_EQ(counts.get("iovs"), 2);
  EXPECT_EQ(counts.get("rings"), 2);
}

TEST_F(ServerJobs, AJobOfARemovedRingStillCompletesAndTheRingIsDeadThen) {
  store(0, "abcd");
  reads->prepare(request(1, 0, 4));
  submit();
  ASSERT_EQ(server.remove_ring(reads.id), 0);
  run();
  EXPECT_EQ(taken(reads), "1:4");
  reads->prepare(request(2, 0, 4));
  submit();
  run();
  EXPECT_EQ(taken(reads), "");
}

TEST_F(ServerJobs, ARemovedIovIsUnknownAndCanBeRegisteredAnew) {
  store(0, "abcd");
  ASSERT_EQ(server.remove_buffer(id_of(1)), 0);
  EXPECT_EQ(server.remove_buffer(id_of(1)), -ENOENT);
  reads->prepare(request(1, 0, 4));
  submit();
  run();
  EXPECT_EQ(taken(reads), "1:-22");
  ASSERT_EQ(server.add_buffer(id_of(1), memory, 0, nullptr), 0);
  reads->prepare(request(2, 0, 4));
  submit();
  run();
  EXPECT_EQ(taken(reads), "2:4");
}

}  // namespace
}  // namespace kvsidecar::fake3fs
