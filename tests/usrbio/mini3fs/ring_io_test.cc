// SPDX-License-Identifier: Apache-2.0
// Goal: the protocol end to end: what a client prepares in shared memory and posts is done to the
// files of the mount. Method: rings by hand, files by system calls, faults by the control socket.
#include <sys/ioctl.h>

#include <cstring>

#include "tests/usrbio/mini3fs/mini3fs_test.h"

namespace kvsidecar::fake3fs {
namespace {

class RingIo : public Mini3fsTest {
 protected:
  void SetUp() override {
    Mini3fsTest::SetUp();
    if (fs == nullptr) return;
    file = open("a");
    io = make_io("-1");
  }
  int64_t read(uint64_t offset, uint64_t bytes) {
    return Mini3fsTest::read(*io, file.get(), offset, bytes);
  }
  int64_t write(uint64_t offset, uint64_t bytes, char letter = 'w') {
    return Mini3fsTest::write(*io, file.get(), offset, bytes, letter);
  }
  int64_t request_and_submit(uint64_t offset, uint64_t user) {
    auto wanted = request(*io, file.get(), offset, 4, 4 * user);
    wanted.user = user;
    return io->reads->hand.prepare(wanted) >= 0 && client->submit() ? 0 : -1;
  }
  UniqueFd file;
  std::unique_ptr<Io> io;
};

TEST_F(RingIo, WritesAndReadsMeetTheKernelsView) {
  EXPECT_EQ(write(5, 200'000, 'q'), 200'000);
  EXPECT_EQ(length(file.get()), 200'005);
  char letter = 0;
  ASSERT_EQ(::pread(file.get(), &letter, 1, 200'004), 1);
  EXPECT_EQ(letter, 'q');
  ASSERT_EQ(::pwrite(file.get(), "kern", 4, 0), 4);
  EXPECT_EQ(read(0, 8), 8);
  EXPECT_EQ(std::memcmp(io->shm.bytes().data(), "kern\0qqq", 8), 0);
}

TEST_F(RingIo, EndsShortAtTheEndAndAtAHole) {
  ASSERT_EQ(write(3 * kChunk, 10), 10);
  EXPECT_EQ(read(3 * kChunk, 100), 10) << "odd offsets and lengths are fine";
  EXPECT_EQ(read(4 * kChunk, 100), 0);
  EXPECT_EQ(read(kChunk, 100), 0) << "a missing chunk in the middle of the file";
  EXPECT_EQ(read(2 * kChunk, kChunk + 10), static_cast<int64_t>(kChunk + 10));
  ASSERT_EQ(::ftruncate(file.get(), 10 * kChunk), 0);
  EXPECT_EQ(read(5 * kChunk, kChunk), 0) << "a file made longer is a hole";
  EXPECT_EQ(read(9 * kChunk, kChunk), static_cast<int64_t>(kChunk)) << "but for its last chunk";
}

TEST_F(RingIo, OnlyInodesThatTheKernelKnowsAreFiles) {
  ASSERT_EQ(write(0, 100), 100);
  auto wanted = request(*io, file.get(), 0, 100);
  ++wanted.inode;
  EXPECT_EQ(one(*io->reads, wanted), -EBADF);
  wanted.inode = 1;
  EXPECT_EQ(one(*io->reads, wanted), -EBADF) << "the root is a folder";
  wanted.inode = 0xffff'ffff'8000'0000;
  EXPECT_EQ(one(*io->reads, wanted), -EBADF) << "so is that of the iovs";
}

TEST_F(RingIo, ADuplicatedDescriptorKeepsTheFileKnown) {
  ASSERT_EQ(write(0, 100), 100);
  const uint64_t inode = inode_of(file.get());
  const UniqueFd kept(::dup(file.get()));
  file.reset();
  auto wanted = request(*io, kept.get(), 0, 100);
  EXPECT_EQ(wanted.inode, inode);
  EXPECT_EQ(one(*io->reads, wanted), 100);
}

TEST_F(RingIo, AnUnlinkedOpenFileCanBeReadUntilItsChunksAreCollected) {
  ASSERT_EQ(write(0, 100), 100);
  ASSERT_EQ(::unlink(path("a").c_str()), 0);
  EXPECT_EQ(read(0, 100), 100);
  ASSERT_TRUE(fs->command("gc").ok());
  EXPECT_EQ(read(0, 100), 0) << "short, not an error";
}

TEST_F(RingIo, CollectionCanComeWithTheUnlink) {
  ASSERT_EQ(write(0, 100), 100);
  set("gc.at_unlink", "on");
  ASSERT_EQ(::unlink(path("a").c_str()), 0);
  EXPECT_EQ(read(0, 100), 0);
}

TEST_F(RingIo, ADelayedLengthShowsAfterSyncCloseOrIoctl) {
  set("stat.delayed", "on");
  ASSERT_EQ(write(0, 100), 100);
  EXPECT_EQ(length(file.get()), 0);
  EXPECT_EQ(read(0, 100), 100) << "reads don't ask the length";
  ASSERT_EQ(::fsync(file.get()), 0);
  EXPECT_EQ(length(file.get()), 100);
  ASSERT_EQ(write(100, 100), 100);
  EXPECT_EQ(length(file.get()), 100);
  uint32_t answer = 0;
  ASSERT_EQ(::ioctl(file.get(), 0x8004680b, &answer), 0);
  EXPECT_EQ(length(file.get()), 200);
  ASSERT_EQ(write(200, 100), 100);
  ASSERT_EQ(::close(::dup(file.get())), 0);
  EXPECT_EQ(length(file.get()), 300);
  ASSERT_EQ(write(300, 100), 100);
  EXPECT_EQ(length(file.get()), 300);
  ASSERT_TRUE(fs->command("sync").ok());
  EXPECT_EQ(length(file.get()), 400);
}

TEST_F(RingIo, AnotherRingsSubmitStartsWhatWasOnlyPrepared) {
  ASSERT_EQ(write(0, 100), 100);
  for (uint64_t user = 0; user < 3; ++user) {
    auto wanted = request(*io, file.get(), 0, 10, 10 * user);
    wanted.user = user;
    ASSERT_GE(io->reads->hand.prepare(wanted), 0);
  }
  const auto other = make_io();
  EXPECT_EQ(Mini3fsTest::read(*other, file.get(), 0, 10), 10);
  EXPECT_EQ(io->reads->hand.wait(3).size(), 3u);
}

TEST_F(RingIo, EachPriorityHasItsOwnSemaphore) {
  ASSERT_EQ(write(0, 100), 100);
  const auto high = client->make_ring(4, ".r0.ph.t0"), low = client->make_ring(4, ".r0.pl.t0");
  ASSERT_TRUE(high != nullptr && low != nullptr);
  ASSERT_GE(high->hand.prepare(request(*io, file.get(), 0, 10)), 0);
  ASSERT_GE(low->hand.prepare(request(*io, file.get(), 0, 10, 10)), 0);
  ASSERT_TRUE(client->submit("submit-ios.ph"));
  EXPECT_EQ(high->hand.wait(1).size(), 1u);
  EXPECT_TRUE(low->hand.take().empty());
  ASSERT_TRUE(client->submit("submit-ios.pl"));
  EXPECT_EQ(low->hand.wait(1).size(), 1u);
}

TEST_F(RingIo, ADepthAboveZeroLeavesTheRemainderForEver) {
  ASSERT_EQ(write(0, 100), 100);
  const auto four = client->make_ring(8, ".r4.t0");
  ASSERT_NE(four, nullptr);
  for (uint64_t user = 0; user < 6; ++user)
    ASSERT_GE(four->hand.prepare(request(*io, file.get(), 0, 10, 10 * user)), 0);
  ASSERT_TRUE(client->submit());
  EXPECT_EQ(four->hand.wait(4).size(), 4u);
  EXPECT_EQ(read(0, 10), 10) << "another scan, which takes nothing of it";
  EXPECT_TRUE(four->hand.take().empty());
}

TEST_F(RingIo, IoThatCrossesABlockOfItsIovIsInvalid) {
  ASSERT_EQ(write(0, 8192), 8192);
  const ShmFile shm(16384);
  const Id id = random_id();
  ASSERT_EQ(client->link(shm.path(), uuid_text(id) + ".b4096"), 0);
  auto wanted = request(*io, file.get(), 0, 4096, 4096);
  wanted.buffer = id;
  EXPECT_EQ(one(*io->reads, wanted), 4096);
  wanted.buffer_offset = 4095;
  EXPECT_EQ(one(*io->reads, wanted), -EINVAL);
}

TEST_F(RingIo, MemoryWithoutPagesIsRefusedAsUnpinnable) {
  ASSERT_EQ(write(0, 8192), 8192);
  const ShmFile shm(8192);
  const Id id = random_id();
  ASSERT_EQ(client->register_iov(id, shm), 0);
  ASSERT_EQ(::truncate(shm.path().c_str(), 4096), 0);  // as a full /dev/shm would
  auto wanted = request(*io, file.get(), 0, 4096, 4096);
  wanted.buffer = id;
  EXPECT_EQ(one(*io->reads, wanted), -EACCES);
  EXPECT_EQ(one(*io->writes, wanted), -EACCES);
}

TEST_F(RingIo, AFailedPinningShowsInTheFirstIoOnly) {
  set("iov.unpinned", "on@1");
  const auto other = make_io();
  EXPECT_EQ(Mini3fsTest::read(*other, file.get(), 0, 10), -EACCES);
}

TEST_F(RingIo, AStalledIoCanBeWaitedForAndReleased) {
  ASSERT_EQ(write(0, 100), 100);
  set("read.stall", "on@1");
  ASSERT_EQ(request_and_submit(0, 1), 0);
  ASSERT_TRUE(fs->wait_for("stalled", 1));
  ASSERT_EQ(request_and_submit(8, 2), 0);
  auto done = io->reads->hand.wait(1);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].user, 2u) << "the younger one comes first";
  ASSERT_TRUE(fs->release().ok());
  done = io->reads->hand.wait(1);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].user, 1u);
}

TEST_F(RingIo, ALostCompletionIsCounted) {
  set("read.lost", "on@1");
  ASSERT_EQ(request_and_submit(0, 1), 0);
  ASSERT_TRUE(fs->wait_for("lost", 1));
  EXPECT_EQ(read(0, 4), 0);
  EXPECT_EQ(fs->count("reads"), 2);
}

TEST_F(RingIo, ARingWithNonsenseInItIsLeftAloneAndHarmsNobody) {
  io->reads->hand.set_index(0, 1'000'000);
  ASSERT_TRUE(client->submit());
  ASSERT_TRUE(fs->wait_for("refused", 1));
  EXPECT_EQ(write(0, 100), 100);
}

}  // namespace
}  // namespace kvsidecar::fake3fs
