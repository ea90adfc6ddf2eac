// SPDX-License-Identifier: Apache-2.0
// Goal: one daemon per runtime directory, and certainty about the one before. Method: real
// directories; processes that end or go on, waited for through waitpid.
#include "sidecar/shell/runtime_dir.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "sidecar/store/node_folder.h"
#include "tests/support/plain_user.h"
#include "tests/unit/shell/temp_dir.h"

namespace kvsidecar {
namespace {

TEST(RuntimeDir, ASecondDaemonIsRefusedWithTheFirstOnesPid) {
  const TempDir dir;
  const Result<RuntimeDir> first = RuntimeDir::claim(dir.path());
  ASSERT_TRUE(first.ok()) << first.status().text();
  const Result<RuntimeDir> second = RuntimeDir::claim(dir.path());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), Code::kBusy);
  EXPECT_NE(second.status().text().find("pid " + std::to_string(::getpid())), std::string::npos);
  EXPECT_NE(second.status().text().find(dir.path()), std::string::npos);
}

TEST(RuntimeDir, ADirectoryIsMadeAndIsClosedToStrangers) {
  const TempDir dir;
  ASSERT_TRUE(RuntimeDir::claim(dir / "run").ok());
  const auto mode = std::filesystem::status(dir / "run").permissions();
  EXPECT_EQ(mode & std::filesystem::perms::others_all, std::filesystem::perms::none);
}

TEST(RuntimeDir, AFileInItsPlaceIsNamed) {
  const TempDir dir;
  std::ofstream(dir / "file") << "x";
  const Result<RuntimeDir> claimed = RuntimeDir::claim(dir / "file");
  ASSERT_FALSE(claimed.ok());
  EXPECT_NE(claimed.status().text().find("daemon.runtime_dir"), std::string::npos);
}

TEST(RuntimeDir, AMissingParentIsNamedWithTheRemedy) {
  const TempDir dir;
  const Result<RuntimeDir> claimed = RuntimeDir::claim(dir / "none/run");
  ASSERT_FALSE(claimed.ok());
  for (const std::string& part : {"daemon.runtime_dir = \"" + (dir / "none/run") + "\"",
                                  "make the parent: mkdir -p " + (dir / "none")})
    EXPECT_NE(claimed.status().text().find(part), std::string::npos) << claimed.status().text();
}

TEST(RuntimeDir, AParentThatMayNotBeWrittenIsSaidWithTheUserWhoMayNot) {
  const TempDir dir;
  std::filesystem::permissions(dir.path(), std::filesystem::perms(0555));
  std::string text, user;
  {
    const PlainUser somebody;
    user = own_user();
    text = RuntimeDir::claim(dir / "run").status().text();
  }
  std::filesystem::permissions(dir.path(), std::filesystem::perms(0755));
  EXPECT_NE(text.find("daemon.runtime_dir"), std::string::npos) << text;
  EXPECT_NE(text.find("can't be made by " + user), std::string::npos) << text;
  EXPECT_NE(text.find("give it to this user"), std::string::npos) << text;
}

TEST(RuntimeDir, TheFirstDaemonOfADirectoryHasNoPredecessor) {
  const TempDir dir;
  const Result<RuntimeDir> first = RuntimeDir::claim(dir.path());
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->predecessor_pid(), 0);
  EXPECT_TRUE(first->predecessor_gone());
}

// A child that has the directory.
pid_t start_owner(const std::string& path) {
  int ready[2];
  EXPECT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const Result<RuntimeDir> claimed = RuntimeDir::claim(path);
    (void)!::write(ready[1], claimed.ok() ? "y" : "n", 1);
    for (;;) ::pause();
  }
  char answer = 0;
  EXPECT_EQ(::read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  ::close(ready[0]);
  ::close(ready[1]);
  return child;
}

TEST(RuntimeDir, AKilledDaemonLeavesTheDirectoryFreeAndIsKnownToBeGone) {
  const TempDir dir;
  const pid_t child = start_owner(dir.path());
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  const Result<RuntimeDir> next = RuntimeDir::claim(dir.path());
  ASSERT_TRUE(next.ok()) << next.status().text();
  EXPECT_EQ(next->predecessor_pid(), child);
  EXPECT_TRUE(next->predecessor_gone());
}

TEST(RuntimeDir, ADaemonThatWasKilledThisMomentIsWaitedFor) {
  const TempDir dir;
  for (int round = 0; round < 20; ++round) {
    const pid_t child = start_owner(dir.path());
    ::kill(child, SIGKILL);  // and no waitpid: it is still ending, or a zombie
    const Result<RuntimeDir> next = RuntimeDir::claim(dir.path());
    ASSERT_TRUE(next.ok()) << next.status().text();
    EXPECT_TRUE(next->predecessor_gone());
    EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  }
}

TEST(RuntimeDir, APredecessorWhoseProcessIsThereIsNotGone) {
  const TempDir dir;
  { ASSERT_TRUE(RuntimeDir::claim(dir.path()).ok()); }  // this process: alive, lock let go
  const Result<RuntimeDir> next = RuntimeDir::claim(dir.path());
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(next->predecessor_pid(), ::getpid());
  EXPECT_FALSE(next->predecessor_gone());
}

TEST(RuntimeDir, AnotherProcessUnderThePredecessorsPidIsNotThePredecessor) {
  const TempDir dir;
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  std::string boot_id;
  boot >> boot_id;
  std::ofstream(dir / "kvsidecard.pid") << ::getpid() << " 1 " << boot_id << "\n";
  const Result<RuntimeDir> next = RuntimeDir::claim(dir.path());
  ASSERT_TRUE(next.ok());
  EXPECT_TRUE(next->predecessor_gone());
}

}  // namespace
}  // namespace kvsidecar
