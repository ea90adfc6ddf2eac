// SPDX-License-Identifier: Apache-2.0
// Goal: what only the emulator has: calls that needn't be deadly, its own counts, its environment.
// Method: the library in this process, on two folders; what every library must do is in
// tests/usrbio/abi.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "ipc/os.h"
#include "tests/usrbio/abi/emulator_subject.h"

namespace kvsidecar::abi {
namespace {

namespace fs = std::filesystem;

// The library is loaded once, so its folders are the program's.
class Folders : public ::testing::Environment {
 public:
  void SetUp() override {
    char made[] = "/tmp/kvsidecar.test-emulator-XXXXXX";
    base_ = ::mkdtemp(made);
    fs::create_directory(base_ / "mount");
    fs::create_directory(base_ / "with space");
    const std::string list = mount() + ":" + spaced();
    ::setenv("KVSIDECAR_EMULATOR_MOUNT", list.c_str(), 1);
    ::setenv("KVSIDECAR_EMULATOR_CHUNK", "65536", 1);
    ::setenv("KVSIDECAR_EMULATOR_FAULTS", "read.error EREMOTEIO@1", 1);
    std::string wrong;
    library = open(EMULATOR_LIBRARY, wrong);
    ASSERT_EQ(wrong, "");
    knobs = find_knobs(library.handle);
    ASSERT_NE(knobs, nullptr);
  }
  void TearDown() override { fs::remove_all(base_); }
  std::string mount() const { return base_ / "mount"; }
  std::string spaced() const { return base_ / "with space"; }

  Library library;
  std::unique_ptr<Knobs> knobs;

 private:
  fs::path base_;
};

Folders* const folders = static_cast<Folders*>(::testing::AddGlobalTestEnvironment(new Folders));

class Emulator : public ::testing::Test {
 protected:
  const Library& library_ = folders->library;
  const Knobs& knobs_ = *folders->knobs;
  const std::string mount_ = folders->mount();

  int64_t read_once() {
    const UniqueFd file(::open((mount_ + "/a").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    EXPECT_EQ(::pwrite(file.get(), "0123456789", 10, 0), 10);
    hf3fs_iov iov{};
    hf3fs_ior ior{};
    EXPECT_EQ(library_.iovcreate(&iov, mount_.c_str(), 4096, 0, -1), 0);
    EXPECT_EQ(library_.iorcreate(&ior, mount_.c_str(), 4, true, 0, -1), 0);
    EXPECT_LE(library_.reg_fd(file.get(), 0), 0);
    EXPECT_GE(library_.prep_io(&ior, &iov, true, iov.base, file.get(), 0, 10, nullptr), 0);
    EXPECT_EQ(library_.submit_ios(&ior), 0);
    hf3fs_cqe done{};
    EXPECT_EQ(library_.wait_for_ios(&ior, &done, 1, 1, nullptr), 1);
    library_.dereg_fd(file.get());
    library_.iordestroy(&ior);
    library_.iovdestroy(&iov);
    return done.result;
  }
};

TEST_F(Emulator, FaultsOfTheEnvironmentAreThereFromTheBeginning) {
  EXPECT_EQ(read_once(), -EREMOTEIO);
  EXPECT_EQ(read_once(), 10);
}

TEST_F(Emulator, WhatIsDeadlyReturnsAnErrorWhereThatIsSwitchedOff) {
  knobs_.crash(0);
  hf3fs_iov iov{};
  char found[64];
  const size_t border = 0;
  EXPECT_EQ(library_.iovcreate(&iov, mount_.c_str(), 0, 0, -1), -EINVAL);
  EXPECT_EQ(library_.iovcreate(&iov, nullptr, 4096, 0, -1), -EINVAL);
  EXPECT_EQ(library_.iovcreate(&iov, mount_.c_str(), 4096, 8192, -1), -EINVAL);
  EXPECT_EQ(library_.extract_mount_point(found, sizeof found, "/no/such/path"), -1);
  EXPECT_EQ(library_.punchhole(0, 1001, &border, &border, 0), EINVAL);
  library_.iovunlink(&iov);
  knobs_.crash(1);
  EXPECT_THROW(library_.iovcreate(&iov, mount_.c_str(), 4096, 8192, -1), std::exception);
}

TEST_F(Emulator, AMountWithASpaceInItsNameIsNeverFound) {
  std::string found(512, '#');
  EXPECT_EQ(library_.extract_mount_point(found.data(), 512, folders->spaced().c_str()), -1);
  hf3fs_iov iov{};
  ASSERT_EQ(library_.iovcreate(&iov, folders->spaced().c_str(), 4096, 0, -1), 0);
  library_.iovdestroy(&iov);
}

TEST_F(Emulator, ItsCountsFollowWhatIsMadeAndGivenBack) {
  const auto count = [&](const char* name) { return knobs_.count(name); };
  hf3fs_iov iov{};
  hf3fs_ior ior{};
  const UniqueFd folder(::open(mount_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(library_.iovcreate(&iov, mount_.c_str(), 4096, 0, -1), 0);
  ASSERT_EQ(library_.iorcreate(&ior, mount_.c_str(), 4, true, 0, -1), 0);
  ASSERT_LE(library_.reg_fd(folder.get(), 0), 0);
  for (const char* name : {"iovs", "rings", "iov_handles", "ring_handles", "dups"}) {
    EXPECT_EQ(count(name), 1u) << name;
  }
  EXPECT_EQ(count("registered"), 2u);  // the descriptor's number and its duplicate's
  library_.dereg_fd(folder.get());
  library_.iordestroy(&ior);
  library_.iovdestroy(&iov);
  for (const char* name : {"iovs", "rings", "iov_handles", "ring_handles", "dups", "registered"}) {
    EXPECT_EQ(count(name), 0u) << name;
  }
}

TEST_F(Emulator, ItsDeathEmptiesTheDaemonsTablesOnly) {
  hf3fs_iov iov{};
  ASSERT_EQ(library_.iovcreate(&iov, mount_.c_str(), 4096, 0, -1), 0);
  knobs_.kill_daemon();
  EXPECT_EQ(knobs_.count("iovs"), 0u);
  EXPECT_EQ(knobs_.count("iov_handles"), 1u);
  EXPECT_FALSE(fs::exists(mount_ + "/3fs-virt"));
  knobs_.restart_daemon();
  EXPECT_TRUE(fs::exists(mount_ + "/3fs-virt/iovs"));
  library_.iovdestroy(&iov);
  EXPECT_EQ(read_once(), 10);
}

TEST_F(Emulator, AFaultThatIsNotKnownChangesNothing) {
  ASSERT_EQ(knobs_.faults("read.error EIO"), 0);
  EXPECT_EQ(knobs_.faults("read.error EWHAT"), -EINVAL);
  EXPECT_EQ(knobs_.faults("nonsense"), -EINVAL);
  EXPECT_EQ(read_once(), -EIO);
  ASSERT_EQ(knobs_.faults(""), 0);
  EXPECT_EQ(read_once(), 10);
}

}  // namespace
}  // namespace kvsidecar::abi
