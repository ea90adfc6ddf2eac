// SPDX-License-Identifier: Apache-2.0
// Goal: the server's death, its restart and its standstill look as the real daemon's do. Method:
// SIGKILL, SIGSTOP and a new mount under open files, rings and iovs.
#include <climits>
#include <cstring>
#include <filesystem>

#include <sys/ioctl.h>

#include "tests/usrbio/mini3fs/leftovers.h"
#include "tests/usrbio/mini3fs/mini3fs_test.h"

namespace kvsidecar::fake3fs {
namespace {

class Restart : public Mini3fsTest {
 protected:
  void SetUp() override {
    Mini3fsTest::SetUp();
    if (fs == nullptr) return;
    file = open("a");
    io = make_io();
  }
  std::string semaphore() const {
    char target[PATH_MAX] = {};
    return ::readlink((client->iovs() + "submit-ios").c_str(), target, sizeof(target) - 1) > 0
               ? target
               : "";
  }
  UniqueFd file;
  std::unique_ptr<Io> io;
};

TEST_F(Restart, AKilledServersMountIsNotConnected) {
  ASSERT_EQ(write(*io, file.get(), 0, 100), 100);
  const std::string path_of_semaphore = semaphore();
  fs->kill();
  char buffer[4];
  EXPECT_EQ(length(file.get()), -ENOTCONN);
  EXPECT_EQ(::pread(file.get(), buffer, 4, 0), -1);
  EXPECT_EQ(errno, ENOTCONN);
  EXPECT_FALSE(open("a"));
  EXPECT_EQ(errno, ENOTCONN);
  EXPECT_EQ(client->register_iov(random_id(), io->shm), -ENOTCONN);
  EXPECT_EQ(::access(path_of_semaphore.c_str(), F_OK), 0) << "it still takes posts, for nobody";
  EXPECT_GE(io->reads->hand.prepare(request(*io, UniqueFd().get(), 0, 4)), 0);
}

TEST_F(Restart, OldRingsAreDeadAndOldIovsUnknownButTheFilesAreTheSame) {
  ASSERT_EQ(write(*io, file.get(), 0, 100, 'k'), 100);
  const uint64_t inode = inode_of(file.get());
  const std::string old_semaphore = semaphore();
  ASSERT_TRUE(fs->restart().ok());
  EXPECT_NE(semaphore(), old_semaphore);
  EXPECT_NE(::access(old_semaphore.c_str(), F_OK), 0);
  EXPECT_EQ(length(file.get()), -ENOTCONN) << "descriptors of before stay dead";
  const UniqueFd again = open("a", O_RDWR);
  EXPECT_EQ(inode_of(again.get()), inode);
  EXPECT_EQ(length(again.get()), 100);

  ASSERT_GE(io->reads->hand.prepare(request(*io, again.get(), 0, 100)), 0);
  ASSERT_TRUE(client->submit());
  const auto ring = client->make_ring(4, ".r0.t0");
  ASSERT_NE(ring, nullptr);
  EXPECT_EQ(one(*ring, request(*io, again.get(), 0, 100)), -EINVAL) << "the iov is unknown";
  EXPECT_TRUE(io->reads->hand.take().empty());
  ASSERT_EQ(client->register_iov(io->id, io->shm), 0) << "the same id again";
  std::memset(io->shm.bytes().data(), 0, 100);
  EXPECT_EQ(one(*ring, request(*io, again.get(), 0, 100)), 100);
  EXPECT_EQ(static_cast<char>(io->shm.bytes()[99]), 'k');
}

TEST_F(Restart, AnInodeThatNobodyOpenedSinceIsNotAFile) {
  ASSERT_EQ(write(*io, file.get(), 0, 100), 100);
  auto wanted = request(*io, file.get(), 0, 100);
  ASSERT_TRUE(fs->restart().ok());
  const auto fresh = make_io();
  wanted.buffer = fresh->id;
  EXPECT_EQ(one(*fresh->reads, wanted), -EBADF);
}

TEST_F(Restart, HolesAreFoundAgain) {
  ASSERT_EQ(write(*io, file.get(), 2 * kChunk, kChunk), static_cast<int64_t>(kChunk));
  ASSERT_EQ(::ftruncate(file.get(), 8 * kChunk + 10), 0);
  ASSERT_TRUE(fs->restart().ok());
  const UniqueFd again = open("a", O_RDWR);
  EXPECT_EQ(length(again.get()), static_cast<off_t>(8 * kChunk + 10));
  const auto fresh = make_io();
  EXPECT_EQ(read(*fresh, again.get(), 0, kChunk), 0);
  EXPECT_EQ(read(*fresh, again.get(), kChunk, 2 * kChunk), static_cast<int64_t>(2 * kChunk));
  EXPECT_EQ(read(*fresh, again.get(), 7 * kChunk, kChunk), 0);
  EXPECT_EQ(read(*fresh, again.get(), 8 * kChunk, kChunk), 10);
}

TEST_F(Restart, ADetachedMountPointIsAPlainFolder) {
  fs->kill();
  fs->detach();
  const UniqueFd plain = open("b");
  ASSERT_TRUE(plain) << "writing here would not be noticed";
  uint32_t magic = 0;
  EXPECT_NE(::ioctl(plain.get(), 0x80046802, &magic), 0);
  EXPECT_NE(::access(fs->iovs().c_str(), F_OK), 0);
  ASSERT_EQ(::unlink(path("b").c_str()), 0);
}

TEST_F(Restart, AStoppedServerDoesNothingUntilItGoesOn) {
  ASSERT_EQ(write(*io, file.get(), 0, 100), 100);
  const auto wanted = request(*io, file.get(), 0, 100);
  // The semaphore's link is asked before: nobody answers while the server stands still.
  const std::string name = "/" + semaphore().substr(std::strlen("/dev/shm/sem."));
  sem_t* posted = ::sem_open(name.c_str(), 0);
  ASSERT_NE(posted, SEM_FAILED);
  fs->stop_process();
  ASSERT_GE(io->reads->hand.prepare(wanted), 0);
  ::sem_post(posted);
  EXPECT_TRUE(io->reads->hand.take().empty());
  fs->continue_process();
  EXPECT_EQ(io->reads->hand.wait(1).size(), 1u);
  ::sem_close(posted);
}

TEST_F(Restart, WhatADeadTestLeftIsTakenAway) {
  namespace files = std::filesystem;
  // No process has this id: beyond the largest that Linux gives.
  const files::path left = files::temp_directory_path() / "kvsidecar.test-mini3fs-999999999-left";
  files::create_directories(left / "data");
  files::create_directories(left / "mount");
  remove_folders_of_dead_tests();
  EXPECT_FALSE(files::exists(left));
  EXPECT_TRUE(files::exists(fs->mount())) << "a living one's stays";
}

TEST_F(Restart, NothingIsLeftWhenTheFixtureEnds) {
  const std::string mount = fs->mount(), path_of_semaphore = semaphore();
  file.reset();
  fs.reset();
  EXPECT_NE(::access(mount.c_str(), F_OK), 0);
  EXPECT_NE(::access(path_of_semaphore.c_str(), F_OK), 0);
}

}  // namespace
}  // namespace kvsidecar::fake3fs
