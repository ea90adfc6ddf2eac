// SPDX-License-Identifier: Apache-2.0
// Goal: a daemon that no longer moves is ended and started again; one that exits is not; nobody
// outlives his supervisor. Method: real processes; a page shared with the children tells which life
// it is; ends are waited for through waitpid and pidfds.
#include "sidecar/shell/supervisor.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <regex>

#include "ipc/os.h"

namespace kvsidecar {
namespace {

struct Shared {
  std::atomic<int> lives{0};
  std::atomic<pid_t> child{0};
  int born = -1;  // eventfd: the child lives
};

class SupervisorTest : public testing::Test {
 protected:
  SupervisorTest() {
    void* page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared_ = new (page) Shared;
    shared_->born = ::eventfd(0, 0);
    options_.backoff_first_ns = 1'000'000;
  }
  ~SupervisorTest() override {
    ::close(shared_->born);
    ::munmap(shared_, 4096);
  }
  Shared* shared_;
  SupervisorOptions options_;
};

TEST_F(SupervisorTest, ADaemonThatExitsEndsTheSupervisorWithItsCode) {
  const auto life = [](void*, Progress) { return 7; };
  EXPECT_EQ(supervise(options_, life, shared_), 7);
}

TEST_F(SupervisorTest, ADaemonThatStopsProgressingIsKilledAndStartedAgain) {
  options_.timeout_ns = 50'000'000;
  const auto life = [](void* context, Progress progress) {
    progress.bump();
    if (static_cast<Shared*>(context)->lives.fetch_add(1) == 0) ::raise(SIGSTOP);  // for ever
    return 0;
  };
  EXPECT_EQ(supervise(options_, life, shared_), 0);
  EXPECT_EQ(shared_->lives.load(), 2);
}

TEST_F(SupervisorTest, ADaemonThatProgressesIsLeftAlone) {
  options_.timeout_ns = 50'000'000;
  const auto life = [](void* context, Progress progress) {
    static_cast<Shared*>(context)->lives.fetch_add(1);
    const uint64_t until_ns = monotonic_ns() + 200'000'000;  // longer than the time limit
    while (monotonic_ns() < until_ns) progress.bump();
    return 0;
  };
  EXPECT_EQ(supervise(options_, life, shared_), 0);
  EXPECT_EQ(shared_->lives.load(), 1);
}

TEST_F(SupervisorTest, ADaemonThatCrashesIsStartedAgain) {
  const auto life = [](void* context, Progress) {
    if (static_cast<Shared*>(context)->lives.fetch_add(1) < 3) ::raise(SIGKILL);
    return 0;
  };
  EXPECT_EQ(supervise(options_, life, shared_), 0);
  EXPECT_EQ(shared_->lives.load(), 4);
}

TEST_F(SupervisorTest, ItsLinesLookLikeThoseOfTheDaemonsLog) {
  const auto life = [](void* context, Progress) {
    if (static_cast<Shared*>(context)->lives.fetch_add(1) == 0) ::raise(SIGKILL);
    return 0;
  };
  testing::internal::CaptureStderr();
  EXPECT_EQ(supervise(options_, life, shared_), 0);
  const std::string line = testing::internal::GetCapturedStderr();
  const std::regex shape(std::getenv("JOURNAL_STREAM") != nullptr
                             ? "<4>supervisor_restarts_daemon pid=[0-9]+ signal=9 backoff_ms=1\n"
                             : "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+[+-][0-9]{2}:[0-9]{2} warning "
                               "supervisor_restarts_daemon pid=[0-9]+ signal=9 backoff_ms=1\n");
  EXPECT_TRUE(std::regex_match(line, shape)) << line;
}

// Runs a supervisor in a child of its own; waits until the daemon below it lives.
pid_t start_supervisor(Shared* shared, const SupervisorOptions& options,
                       int (*life)(void*, Progress)) {
  const pid_t supervisor = ::fork();
  if (supervisor == 0) ::_exit(supervise(options, life, shared));
  uint64_t born = 0;
  EXPECT_EQ(::read(shared->born, &born, sizeof born), 8);
  return supervisor;
}

int wait_for_term(void* context, Progress) {
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  sigprocmask(SIG_BLOCK, &term, nullptr);
  auto* shared = static_cast<Shared*>(context);
  shared->lives.fetch_add(1);
  shared->child.store(::getpid());
  eventfd_signal(shared->born);
  int signal = 0;
  sigwait(&term, &signal);
  return 5;
}

TEST_F(SupervisorTest, SigtermIsPassedOnAndEndsBoth) {
  options_.timeout_ns = 0;
  const pid_t supervisor = start_supervisor(shared_, options_, wait_for_term);
  ::kill(supervisor, SIGTERM);
  int status = 0;
  ASSERT_EQ(::waitpid(supervisor, &status, 0), supervisor);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 5);
  EXPECT_EQ(shared_->lives.load(), 1);
}

TEST_F(SupervisorTest, ADaemonDoesNotOutliveItsSupervisor) {
  options_.timeout_ns = 0;
  const pid_t supervisor = start_supervisor(shared_, options_, wait_for_term);
  const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, shared_->child.load(), 0));
  ASSERT_GE(pidfd, 0);
  ::kill(supervisor, SIGKILL);
  ASSERT_EQ(::waitpid(supervisor, nullptr, 0), supervisor);
  pollfd ended{pidfd, POLLIN, 0};
  EXPECT_EQ(::poll(&ended, 1, 10'000), 1);
  ::close(pidfd);
}

TEST(Progress, WithoutASupervisorItIsAPlainWord) {
  Progress progress;
  const uint64_t before = progress.value();
  progress.bump();
  EXPECT_EQ(progress.value(), before + 1);
}

}  // namespace
}  // namespace kvsidecar
