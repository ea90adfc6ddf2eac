// SPDX-License-Identifier: Apache-2.0
// Goal: what a fuse daemon's death leaves of rings, memory and descriptors, and how each is used
// again. Method: the daemon is killed between two calls and another takes its place.
#include <fcntl.h>

#include "tests/usrbio/abi/bed.h"

namespace kvsidecar::abi {
namespace {

class Restart : public Bed {
 protected:
  void SetUp() override {
    if (!subject().traits().restarts) {
      GTEST_SKIP() << subject().traits().name << " has no daemon that could be killed";
    }
    Bed::SetUp();
    file_ = file("a", pattern(8192));
    make(iov_, 4096);
    make(ring_, 4);
    ASSERT_LE(library_.reg_fd(file_.get(), 0), 0);
  }
  void TearDown() override {
    if (folder_.empty()) return;
    subject().restart_daemon();
    reopen();  // else the number would stay poisoned
    library_.dereg_fd(file_.get());
    Bed::TearDown();
  }
  // A new open file under the old one's number.
  void reopen() {
    const int number = file_.get();
    UniqueFd opened = open("a", O_RDWR);
    ASSERT_EQ(::dup3(opened.get(), number, O_CLOEXEC), number);
  }

  UniqueFd file_;
  Iov iov_;
  Ring ring_;
};

TEST_F(Restart, WithoutADaemonNothingIsOfTheMount) {
  subject().kill_daemon();
  EXPECT_FALSE(library_.is_hf3fs(file_.get()));
  EXPECT_EQ(library_.reg_fd(file_.get(), 0), EBADF);
}

TEST_F(Restart, WithoutADaemonNothingIsMade) {
  subject().kill_daemon();
  Iov iov;
  Ring ring;
  EXPECT_EQ(library_.iovcreate(&iov, mount().c_str(), 4096, 0, -1), -ENOTCONN);
  EXPECT_EQ(library_.iorcreate(&ring, mount().c_str(), 4, true, 0, -1), -ENOTCONN);
}

TEST_F(Restart, APathOfADeadMountThrowsOrHasNone) {
  subject().kill_daemon();
  char found[512];
  const auto call = [&] {
    return library_.extract_mount_point(found, sizeof found, folder_.c_str());
  };
  if (traits_.throws) {
    EXPECT_THROW(call(), std::exception);
  } else {
    EXPECT_EQ(call(), -1);
  }
}

TEST_F(Restart, AnOldRingTakesRequestsAndNeverAnswers) {
  subject().kill_daemon();
  EXPECT_GE(prepare_read(ring_, iov_, 0, file_.get(), 0, 10, 1), 0);
  EXPECT_EQ(library_.submit_ios(&ring_), 0);
  subject().restart_daemon();
  EXPECT_GE(prepare_read(ring_, iov_, 10, file_.get(), 0, 10, 1), 0);
  EXPECT_EQ(library_.submit_ios(&ring_), 0);
  hf3fs_cqe done{};
  const timespec until = from_now_ms(10);
  EXPECT_EQ(library_.wait_for_ios(&ring_, &done, 1, 1, &until), 0);
}

TEST_F(Restart, WhatStalledWhenItDiedNeverEnds) {
  KVS_FAULTS("read.stall on");
  ASSERT_GE(prepare_read(ring_, iov_, 0, file_.get(), 0, 10, 1), 0);
  ASSERT_EQ(library_.submit_ios(&ring_), 0);
  subject().kill_daemon();
  subject().restart_daemon();
  let_go();
  hf3fs_cqe done{};
  const timespec until = from_now_ms(10);
  EXPECT_EQ(library_.wait_for_ios(&ring_, &done, 1, 1, &until), 0);
}

// usrbio.md §11.4
TEST_F(Restart, AnOldNumberIsCuredByANewFileInItsPlace) {
  subject().kill_daemon();
  subject().restart_daemon();
  EXPECT_EQ(library_.reg_fd(file_.get(), 0), EBADF);
  reopen();
  const int answer = library_.reg_fd(file_.get(), 0);
  if (traits_.poisons) {
    EXPECT_EQ(answer, EINVAL);
    library_.dereg_fd(file_.get());
    EXPECT_LE(library_.reg_fd(file_.get(), 0), 0);
  } else {
    EXPECT_LE(answer, 0);
  }
  Iov iov;
  make(iov, 4096);
  EXPECT_EQ(one_read(iov, 0, file_.get(), 0, 10), 10);
}

// usrbio.md §11.5
TEST_F(Restart, OldMemoryIsUnknownUntilItIsRegisteredAgainUnderItsId) {
  char target[256] = {};
  ASSERT_GT(::readlink(iov_.link().c_str(), target, sizeof target - 1), 0);
  subject().kill_daemon();
  subject().restart_daemon();
  const UniqueFd opened = open("a", O_RDONLY);
  const Registered registered(opened.get());
  EXPECT_EQ(one_read(iov_, 0, opened.get(), 0, 10), -EINVAL);
  ASSERT_EQ(::symlink(target, iov_.link().c_str()), 0);
  EXPECT_EQ(one_read(iov_, 0, opened.get(), 0, 10), 10);
}

TEST_F(Restart, ARegistrationMadeBeforeIsUnknownToTheNext) {
  subject().kill_daemon();
  subject().restart_daemon();
  Iov iov;
  make(iov, 4096);
  EXPECT_EQ(one_read(iov, 0, file_.get(), 0, 10), -EBADF);
}

}  // namespace
}  // namespace kvsidecar::abi
