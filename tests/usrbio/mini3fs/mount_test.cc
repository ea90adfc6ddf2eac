// SPDX-License-Identifier: Apache-2.0
// Goal: seen through the kernel, mini3fs is a 3FS mount whose files and folders work, and each
// operation can be made to fail. Method: plain system calls.
#include <stdio.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/usrbio/mini3fs/mini3fs_test.h"

namespace kvsidecar::fake3fs {
namespace {

class Mount : public Mini3fsTest {
 protected:
  static int number(int fd, unsigned long command) {
    uint32_t answer = 0;
    return ::ioctl(fd, command, &answer) == 0 ? static_cast<int>(answer) : -errno;
  }
  // 0 or the errno of a call that returns -1.
  static int failed(int result) { return result < 0 ? errno : 0; }
};

TEST_F(Mount, IsOfTypeFuseHf3fs) {
  std::ifstream mounts("/proc/self/mountinfo");
  std::string found;
  for (std::string line; std::getline(mounts, line);)
    if (line.find(" " + fs->mount() + " ") != std::string::npos) found = line;
  EXPECT_NE(found.find(" - fuse.hf3fs hf3fs.mini "), std::string::npos) << found;
}

TEST_F(Mount, AnswersTheIoctlsOnFilesFoldersAndTheVirtualFolder) {
  const UniqueFd file = open("a"), folder = open("", O_RDONLY | O_DIRECTORY);
  const UniqueFd iovs(::open(fs->iovs().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (const UniqueFd* fd : {&file, &folder, &iovs}) {
    EXPECT_EQ(static_cast<uint32_t>(number(fd->get(), 0x80046802)), 0x8f3f5fffu);
    EXPECT_EQ(number(fd->get(), 0x80046803), 1);
  }
  char name[32] = {};
  ASSERT_EQ(::ioctl(file.get(), 0x80206800, name), 0);
  EXPECT_STREQ(name, "mini");
  EXPECT_EQ(number(file.get(), 0x80046899), -ENOTTY);
  set("ioctl.version", "2");
  EXPECT_EQ(number(file.get(), 0x80046803), 2);
}

TEST_F(Mount, FilesKeepWhatIsWritten) {
  const UniqueFd fd = open("a");
  const std::string data(200'000, 'd');
  ASSERT_EQ(::pwrite(fd.get(), data.data(), data.size(), 10), 200'000);
  EXPECT_EQ(length(fd.get()), 200'010);
  std::string back(data.size(), '\0');
  ASSERT_EQ(::pread(fd.get(), back.data(), back.size(), 10), 200'000);
  EXPECT_EQ(back, data);
  EXPECT_EQ(::ftruncate(fd.get(), 5), 0);
  EXPECT_EQ(length(fd.get()), 5);
  EXPECT_EQ(::pread(fd.get(), back.data(), 10, 0), 5);
}

TEST_F(Mount, NamesWorkAsInAnyFileSystem) {
  EXPECT_TRUE(open("a", O_RDWR | O_CREAT | O_EXCL));
  EXPECT_FALSE(open("a", O_RDWR | O_CREAT | O_EXCL));
  EXPECT_EQ(errno, EEXIST);
  EXPECT_EQ(::mkdir(path("f").c_str(), 0755), 0);
  EXPECT_EQ(failed(::mkdir(path("f").c_str(), 0755)), EEXIST);
  EXPECT_EQ(::rename(path("a").c_str(), path("f/b").c_str()), 0);
  EXPECT_EQ(::link(path("f/b").c_str(), path("c").c_str()), 0);
  EXPECT_EQ(failed(::link(path("f/b").c_str(), path("c").c_str())), EEXIST);
  EXPECT_EQ(inode_of(open("f/b", O_RDONLY).get()), inode_of(open("c", O_RDONLY).get()));
  EXPECT_EQ(failed(::rmdir(path("f").c_str())), ENOTEMPTY);
  EXPECT_EQ(::symlink("f/b", path("s").c_str()), 0);
  EXPECT_TRUE(open("s", O_RDONLY));
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(fs->mount()))
    names.insert(entry.path().filename());
  EXPECT_EQ(names, std::set<std::string>({"c", "f", "s"}));
  EXPECT_EQ(::unlink(path("f/b").c_str()), 0);
  EXPECT_EQ(::rmdir(path("f").c_str()), 0);
  EXPECT_FALSE(open("f/b", O_RDONLY));
}

TEST_F(Mount, WhatTheRealOneDoesNotHaveIsRefused) {
  const UniqueFd fd = open("a");
  EXPECT_EQ(failed(::fallocate(fd.get(), 0, 0, 4096)), EOPNOTSUPP);
  open("b");
  EXPECT_NE(::renameat2(AT_FDCWD, path("a").c_str(), AT_FDCWD, path("b").c_str(), RENAME_NOREPLACE),
            0);
  EXPECT_EQ(::flock(fd.get(), LOCK_EX | LOCK_NB), 0) << "local to this node";
}

TEST_F(Mount, EachOperationFailsWithTheErrnoThatIsSet) {
  const UniqueFd fd = open("a"), other = open("b");
  ::mkdir(path("f").c_str(), 0755);
  char buffer[8] = {};
  struct statvfs space {};
  const auto strikes = [&](const std::string& name, auto call) {
    set("fuse." + name, "ENOLINK");
    EXPECT_EQ(failed(static_cast<int>(call())), ENOLINK) << name;
    set("fuse." + name, "off");
  };
  strikes("open", [&] { return ::open(path("a").c_str(), O_RDONLY); });
  strikes("create", [&] { return ::open(path("n").c_str(), O_RDWR | O_CREAT, 0666); });
  strikes("mkdir", [&] { return ::mkdir(path("m").c_str(), 0755); });
  strikes("unlink", [&] { return ::unlink(path("b").c_str()); });
  strikes("rmdir", [&] { return ::rmdir(path("f").c_str()); });
  strikes("rename", [&] { return ::rename(path("a").c_str(), path("c").c_str()); });
  strikes("link", [&] { return ::link(path("a").c_str(), path("c").c_str()); });
  strikes("symlink", [&] { return ::symlink("a", path("s").c_str()); });
  strikes("setattr", [&] { return ::ftruncate(fd.get(), 9); });
  strikes("getattr", [&] { return length(fd.get()) == -ENOLINK ? (errno = ENOLINK, -1) : 0; });
  strikes("lookup", [&] { return ::access(path("a").c_str(), F_OK); });
  ASSERT_EQ(::ftruncate(fd.get(), 9), 0);
  strikes("read", [&] { return ::pread(fd.get(), buffer, 8, 0); });
  strikes("write", [&] { return ::pwrite(fd.get(), buffer, 8, 0); });
  strikes("fsync", [&] { return ::fsync(fd.get()); });
  strikes("opendir", [&] { return ::open(fs->mount().c_str(), O_RDONLY | O_DIRECTORY); });
  strikes("statfs", [&] { return ::statvfs(fs->mount().c_str(), &space); });
  strikes("ioctl", [&] { return ::ioctl(fd.get(), 0x80046802, buffer); });
  strikes("flush", [&] { return ::close(::dup(fd.get())); });
}

TEST_F(Mount, AnAnswerThatWasLostHidesThatItWasDone) {
  open("a");
  set("fuse.rename.after", "ENOENT@1");
  EXPECT_EQ(failed(::rename(path("a").c_str(), path("b").c_str())), ENOENT);
  EXPECT_TRUE(open("b", O_RDONLY)) << "it was renamed all the same";
}

TEST_F(Mount, FullSpaceEndsWritesAndShowsInStatfs) {
  const UniqueFd fd = open("a");
  set("space.bytes", "131072");
  const std::string data(65536, 'x');
  EXPECT_EQ(::pwrite(fd.get(), data.data(), data.size(), 0), 65536);
  struct statvfs space {};
  ASSERT_EQ(::statvfs(fs->mount().c_str(), &space), 0);
  EXPECT_EQ(space.f_bavail * space.f_frsize, 65536u);
  EXPECT_EQ(::pwrite(fd.get(), data.data(), data.size(), 65536), 65536);
  EXPECT_EQ(failed(static_cast<int>(::pwrite(fd.get(), "x", 1, 131072))), ENOSPC);
  set("quota.bytes", "131072");
  EXPECT_EQ(failed(static_cast<int>(::pwrite(fd.get(), "x", 1, 131072))), EDQUOT);
  EXPECT_EQ(::unlink(path("a").c_str()), 0);
}

TEST_F(Mount, HardLinkAndPunchHoleByIoctl) {
  const UniqueFd fd = open("a"), folder = open("", O_RDONLY | O_DIRECTORY);
  struct {
    uint64_t inode;
    char name[256];
  } link = {.inode = inode_of(fd.get()), .name = "b"};
  ASSERT_EQ(::ioctl(folder.get(), 0x4108680c, &link), 0);
  EXPECT_EQ(inode_of(open("b", O_RDONLY).get()), inode_of(fd.get()));
  EXPECT_EQ(failed(::ioctl(folder.get(), 0x4108680c, &link)), EEXIST);

  const std::string data(3 * kChunk, 'x');
  ASSERT_EQ(::pwrite(fd.get(), data.data(), data.size(), 0), static_cast<ssize_t>(data.size()));
  struct Punch {
    int32_t count;
    uint64_t flags, begin[1000], end[1000];
  };
  const auto punch = std::make_unique<Punch>();
  *punch = {.count = 1, .flags = 0, .begin = {kChunk}, .end = {kChunk + 5}};
  EXPECT_EQ(failed(::ioctl(fd.get(), 0x7e90680d, punch.get())), EINVAL);
  punch->end[0] = 2 * kChunk;
  EXPECT_EQ(::ioctl(fd.get(), 0x7e90680d, punch.get()), 0);
  punch->count = 1001;
  EXPECT_EQ(failed(::ioctl(fd.get(), 0x7e90680d, punch.get())), EINVAL);
  EXPECT_EQ(length(fd.get()), static_cast<off_t>(3 * kChunk));
  const auto io = make_io();
  EXPECT_EQ(read(*io, fd.get(), kChunk, kChunk), 0);
  EXPECT_EQ(read(*io, fd.get(), 0, 3 * kChunk), static_cast<int64_t>(3 * kChunk));
}

TEST_F(Mount, RecursiveRemovalByIoctlEmptiesAFolder) {
  ASSERT_EQ(::mkdir(path("f").c_str(), 0755), 0);
  ASSERT_EQ(::mkdir(path("f/g").c_str(), 0755), 0);
  ASSERT_TRUE(open("f/a") && open("f/g/b") && open("c"));
  const UniqueFd folder = open("f", O_RDONLY | O_DIRECTORY), file = open("c");
  EXPECT_EQ(number(folder.get(), 0x8004680a), 0);
  EXPECT_TRUE(std::filesystem::is_empty(path("f")));
  EXPECT_EQ(number(file.get(), 0x8004680a), -ENOTDIR);
}

TEST_F(Mount, AnUnknownFaultIsRefusedWithASentence) {
  const Status refused = fs->set("fuse.opne", "EIO");
  EXPECT_NE(refused.text().find("there is no fault 'fuse.opne'"), std::string::npos);
  EXPECT_FALSE(fs->set("fuse.open", "EWRONG").ok());
  EXPECT_FALSE(fs->command("sing").ok());
}

}  // namespace
}  // namespace kvsidecar::fake3fs
