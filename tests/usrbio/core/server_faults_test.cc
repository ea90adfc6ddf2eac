// SPDX-License-Identifier: Apache-2.0
// Goal: each fault of rings does what its name says, to the I/O it was meant for. Method: a whole
// server in one thread and made-up time; worker threads once.
#include <cerrno>

#include "tests/usrbio/core/scene.h"
#include "tests/usrbio/core/worker_threads.h"

namespace kvsidecar::fake3fs {
namespace {

class ServerFaults : public Scene {
 protected:
  void SetUp() override { store(0, "abcdefgh"); }
  void set(const char* name, const char* value) { ASSERT_TRUE(faults.set(name, value).ok()); }
  void read(uint64_t user, uint64_t offset = 0) {
    ASSERT_GE(reads->prepare(request(user, offset, 4, 8 * user)), 0);
    submit();
    run();
  }
  ClientRing reads = make_ring(10, 8, {.io_depth = -1});
};

TEST_F(ServerFaults, AnErrnoEndsTheNthIoWithoutItsBytes) {
  fill_buffer('.');
  set("read.error", "EREMOTEIO@2");
  for (uint64_t user = 1; user <= 3; ++user) read(user);
  EXPECT_EQ(taken(reads), "1:4 2:-121 3:4");
  EXPECT_EQ(buffer_text(8, 20), "abcd............abcd");
}

TEST_F(ServerFaults, AShortCountMovesNoMoreThanItSays) {
  fill_buffer('.');
  set("read.short", "3@1");
  read(1);
  read(2);
  EXPECT_EQ(taken(reads), "1:3 2:4");
  EXPECT_EQ(buffer_text(8, 4), "abc.");
}

TEST_F(ServerFaults, AShortWriteStoresNoMoreThanItSays) {
  ClientRing writes = make_ring(11, 4, {.for_read = false});
  set("write.short", "2");
  writes->prepare(request(1, 16, 4));
  submit();
  run();
  EXPECT_EQ(taken(writes), "1:2");
  EXPECT_EQ(files[kFile]->length(false), 18u);
}

TEST_F(ServerFaults, ADelayedIoBeginsLaterAndHoldsNobodyUp) {
  set("read.delay_us", "50@1");
  fill_buffer('.');
  read(1);
  read(2);
  EXPECT_EQ(taken(reads), "2:4");
  EXPECT_EQ(buffer_text(8, 4), "....");
  EXPECT_EQ(server.next_due_ns(), clock.now + 50'000);
  clock.now += 49'999;
  run();
  EXPECT_EQ(taken(reads), "");
  clock.now += 1;
  run();
  EXPECT_EQ(taken(reads), "1:4");
}

TEST_F(ServerFaults, ALateCompletionsBytesAreThereBefore) {
  set("read.late_us", "50@1");
  fill_buffer('.');
  read(1);
  EXPECT_EQ(taken(reads), "");
  EXPECT_EQ(buffer_text(8, 4), "abcd");
  clock.now += 50'000;
  run();
  EXPECT_EQ(taken(reads), "1:4");
}

TEST_F(ServerFaults, AStalledIoWaitsForItsRelease) {
  set("read.stall", "on@1-2");
  read(1);
  read(2);
  read(3);
  EXPECT_EQ(taken(reads), "3:4");
  EXPECT_EQ(counts.get("stalled"), 2);
  clock.now += 3'600'000'000'000;
  run();
  EXPECT_EQ(taken(reads), "");
  server.release_stalled();
  run();
  EXPECT_EQ(taken(reads), "1:4 2:4");
  EXPECT_EQ(counts.get("stalled"), 0);
}

TEST_F(ServerFaults, AStallOfAMinuteEndsAfterAMinute) {
  set("read.stall", "60000");
  read(1);
  clock.now += 59'999'999'999;
  run();
  EXPECT_EQ(taken(reads), "");
  clock.now += 1;
  run();
  EXPECT_EQ(taken(reads), "1:4");
  EXPECT_EQ(counts.get("stalled"), 0);
}

TEST_F(ServerFaults, AStalledIoHoldsTheWholeJobBack) {
  ClientRing whole = make_ring(11, 4, {.io_depth = 0});
  set("read.stall", "on@2");
  whole->prepare(request(1, 0, 4, 0));
  whole->prepare(request(2, 4, 4, 4));
  submit();
  run();
  EXPECT_EQ(taken(whole), "");
  server.release_stalled();
  run();
  EXPECT_EQ(taken(whole), "1:4 2:4");
}

TEST_F(ServerFaults, ALostCompletionNeverComesThoughItsBytesDid) {
  set("read.lost", "on@1");
  fill_buffer('.');
  read(1);
  read(2);
  clock.now += 3'600'000'000'000;
  run();
  EXPECT_EQ(taken(reads), "2:4");
  EXPECT_EQ(buffer_text(8, 4), "abcd");
  EXPECT_EQ(counts.get("lost"), 1);
}

TEST_F(ServerFaults, TheNewestJobCanComeFirst) {
  set("jobs.newest_first", "on");
  for (uint64_t user = 1; user <= 3; ++user) reads->prepare(request(user, 0, 4, 8 * user));
  submit();
  run();
  EXPECT_EQ(taken(reads), "3:4 2:4 1:4");
}

TEST_F(ServerFaults, UnpinnedMemoryShowsOnlyInItsIo) {
  set("iov.unpinned", "on@1");
  EXPECT_EQ(server.add_buffer(id_of(2), memory, 0, nullptr), 0);
  auto other = request(1, 0, 4);
  other.buffer = id_of(2);
  reads->prepare(other);
  submit();
  run();
  EXPECT_EQ(taken(reads), "1:-13");
  ASSERT_EQ(server.remove_buffer(id_of(2)), 0);
  EXPECT_EQ(server.add_buffer(id_of(2), memory, 0, nullptr), 0);
  reads->prepare(other);
  submit();
  run();
  EXPECT_EQ(taken(reads), "1:4");
}

TEST_F(ServerFaults, AFullStoreEndsWritesAndAnUnlinkedFileReadsShort) {
  ClientRing writes = make_ring(11, 4, {.for_read = false, .io_depth = -1});
  set("space.bytes", "16");
  writes->prepare(request(1, 8, 8));
  writes->prepare(request(2, 16, 1));
  submit();
  run();
  EXPECT_EQ(taken(writes), "1:8 2:-28");
  files[kFile]->collect();
  read(3);
  EXPECT_EQ(taken(reads), "3:0");
}

TEST(ServerThreads, WorkersRunJobsThatWaitAndStopWithThemInFlight) {
  class NoFiles final : public FileTable {
    std::shared_ptr<DataFile> find(uint64_t) override { return nullptr; }
  } files;
  Faults faults;
  Counts counts;
  Server server(real_clock(), files, faults, counts);
  std::vector<uint64_t> words(ring_file_bytes(16) / 8);
  const auto bytes = std::as_writable_bytes(std::span(words));
  ASSERT_EQ(server.add_ring(id_of(1), bytes, {.io_depth = -1}, nullptr), 0);
  HandRing hand(bytes, 16);
  {
    const WorkerThreads workers(server, 4);
    ASSERT_TRUE(faults.set("read.delay_us", "100").ok());
    for (uint64_t user = 0; user < 16; ++user) hand.prepare({.bytes = 1, .user = user});
    server.submitted(Priority::kNormal);
    const auto done = hand.wait(16);
    ASSERT_EQ(done.size(), 16u);
    for (const auto& one : done) EXPECT_EQ(one.result, -EINVAL);
    ASSERT_TRUE(faults.set("read.stall", "on").ok());
    hand.prepare({.bytes = 1, .user = 99});
    server.submitted(Priority::kNormal);
    EXPECT_TRUE(counts.wait_for("stalled", 1, std::chrono::seconds(20)));
  }
  server.release_stalled();
  EXPECT_TRUE(hand.take().empty()) << "a killed server completes nothing more";
}

}  // namespace
}  // namespace kvsidecar::fake3fs
