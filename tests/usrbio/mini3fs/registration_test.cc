// SPDX-License-Identifier: Apache-2.0
// Goal: iovs and rings are registered, seen, taken away and reclaimed by the daemon's rules.
// Method: symlinks and what system calls say of them; another user is this process with another
// effective uid.
#include <sys/wait.h>

#include <climits>
#include <thread>

#include "tests/support/plain_user.h"
#include "tests/usrbio/mini3fs/mini3fs_test.h"

namespace kvsidecar::fake3fs {
namespace {

class Registration : public Mini3fsTest {
 protected:
  UniqueFd open_iovs() const {
    return UniqueFd(::open(fs->iovs().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  // Releasing a folder is asynchronous to close(): waits until the server saw that many.
  void wait_for_closed(int64_t times) { ASSERT_TRUE(fs->wait_for("iovs_closed", times)); }
  ShmFile shm{64 << 10};
};

TEST_F(Registration, AnIovsLinkReadsBackForWhoMadeIt) {
  const Id id = random_id();
  ASSERT_EQ(client->register_iov(id, shm), 0);
  const std::string link = client->iovs() + uuid_text(id);
  char target[PATH_MAX] = {};
  ASSERT_GT(::readlink(link.c_str(), target, sizeof(target) - 1), 0);
  EXPECT_EQ(shm.path(), target);
  struct stat facts {};
  ASSERT_EQ(::lstat(link.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode, static_cast<mode_t>(S_IFLNK | 0400));
  EXPECT_EQ(facts.st_ino, 0xffff'ffff'8000'0000 - 65535);
  EXPECT_EQ(fs->count("iovs"), 1);
  EXPECT_EQ(client->register_iov(id, shm), -EEXIST);
  EXPECT_EQ(client->unlink(uuid_text(id)), 0);
  EXPECT_EQ(client->unlink(uuid_text(id)), -ENOENT);
  EXPECT_EQ(fs->count("iovs"), 0);
  EXPECT_EQ(client->register_iov(id, shm), 0) << "the same id can come again";
}

TEST_F(Registration, ATargetThatIsNoFileOfDevShmIsInvalid) {
  const auto link = [&](const std::string& target) {
    return client->link(target, uuid_text(random_id()));
  };
  EXPECT_EQ(link("/dev/shm/kvsidecar.test-missing"), -EINVAL);
  EXPECT_EQ(link("/dev/shm"), -EINVAL);
  EXPECT_EQ(link("/dev/shm/"), -EINVAL);
  EXPECT_EQ(link("/dev/shm/.."), -EINVAL);
  EXPECT_EQ(link("/dev/shm/../shm" + shm.path().substr(8)), -EINVAL);
  EXPECT_EQ(link("/etc/passwd"), -EINVAL);
  EXPECT_EQ(link("relative"), -EINVAL);
  const std::string by_link = shm.path() + "-link";
  ASSERT_EQ(::symlink(shm.path().c_str(), by_link.c_str()), 0);
  EXPECT_EQ(link(by_link), -EINVAL);
  ::unlink(by_link.c_str());
}

TEST_F(Registration, NamesAndSizesThatAreWrongAreRefused) {
  EXPECT_EQ(client->link(shm.path(), "no-uuid"), -EIO);
  const auto with = [&](const std::string& parts) {
    return client->link(shm.path(), uuid_text(random_id()) + parts);
  };
  EXPECT_EQ(with(".b65536"), 0);
  EXPECT_EQ(with(".b65537"), -EINVAL);
  EXPECT_EQ(with(".b0"), -EINVAL);
  EXPECT_EQ(with(".t0"), -EINVAL);
  EXPECT_EQ(client->make_ring(4, ".r5.t0"), nullptr);
  EXPECT_NE(client->make_ring(4, ".r4.t0"), nullptr);
  const ShmFile small(4240);
  EXPECT_EQ(client->link(small.path(), uuid_text(random_id()) + ".r0.t0"), -EINVAL);
}

TEST_F(Registration, FullTablesSayEmfile) {
  set("iovs.max", "1");
  set("rings.max", "1");
  EXPECT_EQ(client->register_iov(random_id(), shm), 0);
  EXPECT_EQ(client->register_iov(random_id(), shm), -EMFILE);
  EXPECT_NE(client->make_ring(4, ".r0.t0"), nullptr);
  EXPECT_EQ(client->make_ring(4, ".r0.t0"), nullptr);
  EXPECT_EQ(errno, EMFILE);
}

TEST_F(Registration, AnyErrnoCanBeTheAnswer) {
  set("fuse.symlink", "EACCES@1");
  EXPECT_EQ(client->register_iov(random_id(), shm), -EACCES);
  EXPECT_EQ(client->register_iov(random_id(), shm), 0);
}

TEST_F(Registration, AnotherUserSeesNothingAndMayTakeNothingAway) {
  const Id id = random_id();
  ASSERT_EQ(client->register_iov(id, shm), 0);
  const std::string link = client->iovs() + uuid_text(id);
  {
    const PlainUser nobody;
    char target[PATH_MAX];
    EXPECT_EQ(::readlink(link.c_str(), target, sizeof(target)), -1);
    EXPECT_EQ(errno, EPERM);
    EXPECT_EQ(client->unlink(uuid_text(id)), -EPERM);
  }
  EXPECT_EQ(client->unlink(uuid_text(id)), 0);
}

TEST_F(Registration, AnIdIsEnoughForAnotherUsersRing) {
  const UniqueFd file = open("a");
  const auto io = make_io();
  ASSERT_EQ(write(*io, file.get(), 0, 100), 100);
  std::unique_ptr<RawRing> ring;
  {
    const PlainUser nobody;
    ring = client->make_ring(4, ".r0.t0");
  }
  ASSERT_NE(ring, nullptr);
  EXPECT_EQ(one(*ring, request(*io, file.get(), 0, 100)), 100);
}

TEST_F(Registration, TheSemaphoresLinksStay) {
  for (const char* name : {"submit-ios", "submit-ios.ph", "submit-ios.pl"}) {
    EXPECT_EQ(client->unlink(name), -EPERM);
    EXPECT_EQ(client->link(shm.path(), name), -EEXIST);
    EXPECT_TRUE(client->submit(name));
  }
  EXPECT_TRUE(fs->wait_for("submits", 3));
  EXPECT_EQ(::open((fs->iovs() + "/file").c_str(), O_RDWR | O_CREAT, 0666), -1);
  EXPECT_EQ(errno, EPERM);
}

TEST_F(Registration, ClosingTheFolderTakesBackWhatTheSameThreadMade) {
  UniqueFd folder = open_iovs();
  ASSERT_EQ(client->register_iov(random_id(), shm), 0);
  const auto ring = client->make_ring(4, ".r0.t0");
  ASSERT_NE(ring, nullptr);
  std::thread([&] { EXPECT_EQ(client->register_iov(random_id(), shm), 0); }).join();
  EXPECT_EQ(fs->count("iovs"), 2);
  folder.reset();
  wait_for_closed(1);
  EXPECT_EQ(fs->count("reclaimed"), 2);
  EXPECT_EQ(fs->count("iovs"), 1) << "FUSE tells the thread, not the process";
  EXPECT_EQ(fs->count("rings"), 0);
}

TEST_F(Registration, AnInheritedFolderDelaysTheReclaim) {
  UniqueFd folder = open_iovs();
  UniqueFd inherited(::dup(folder.get()));  // what a forked child would have
  ASSERT_EQ(client->register_iov(random_id(), shm), 0);
  folder.reset();
  EXPECT_EQ(fs->count("iovs"), 1);
  inherited.reset();
  wait_for_closed(1);
  EXPECT_EQ(fs->count("iovs"), 0);
}

TEST_F(Registration, AKilledClientsIovIsTakenBackAndItsMemoryFileStays) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::open(fs->iovs().c_str(), O_RDONLY | O_DIRECTORY);
    if (client->register_iov(random_id(), shm) == 0) ::raise(SIGKILL);
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  wait_for_closed(1);
  EXPECT_EQ(fs->count("reclaimed"), 1);
  EXPECT_EQ(fs->count("iovs"), 0);
  EXPECT_EQ(::access(shm.path().c_str(), F_OK), 0);
}

}  // namespace
}  // namespace kvsidecar::fake3fs
