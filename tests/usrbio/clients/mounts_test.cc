// SPDX-License-Identifier: Apache-2.0
// Goal: a 3FS mount is found wherever it is mounted, and one that is dead, hangs or speaks another
// version is a sentence and blocks no ring. Method: mini3fs mounted, bound, killed, stopped.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mount.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "ipc/os.h"
#include "sidecar/store/usrbio/client.h"
#include "tests/unit/usrbio/leftovers.h"
#include "tests/usrbio/mini3fs/fixture.h"

namespace kvsidecar::usrbio {
namespace {

namespace fs = std::filesystem;

// A bind mount at a new folder, gone with this object.
class Bind {
 public:
  Bind(const std::string& what, const std::string& where) : where_(where) {
    fs::create_directories(where);
    bound_ = ::mount(what.c_str(), where.c_str(), nullptr, MS_BIND, nullptr) == 0;
  }
  ~Bind() {
    if (bound_) ::umount2(where_.c_str(), MNT_DETACH);
  }
  bool bound() const { return bound_; }

 private:
  const std::string where_;
  bool bound_;
};

class MountsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string missing = fake3fs::Mini3fs::missing();
    if (!missing.empty()) GTEST_SKIP() << missing;
    auto started = fake3fs::Mini3fs::start();
    ASSERT_TRUE(started.ok()) << started.status().text();
    server_ = started.take();
    sweep_dead_tests();
    aside_ = "/tmp/" + test_name();
    fs::create_directory(aside_);
  }
  void TearDown() override {
    if (aside_.empty()) return;
    std::error_code ignored;
    fs::remove_all(aside_, ignored);
  }

  std::unique_ptr<fake3fs::Mini3fs> server_;
  std::string aside_;  // a plain folder
};

TEST_F(MountsTest, AnyPathBelowTheMountFindsIt) {
  fs::create_directories(server_->mount() + "/a/b");
  std::ofstream(server_->mount() + "/a/file") << "x";
  for (const std::string below :
       {"", "/", "/a", "/a/b/", "/a/file", "/a/not/there/yet", "/3fs-virt"})
    EXPECT_EQ(*mount_point_of(server_->mount() + below), server_->mount()) << below;
  EXPECT_EQ(*mount_point_of(aside_), "");
}

TEST_F(MountsTest, ALinkIntoTheMountFindsIt) {
  ASSERT_EQ(::symlink(server_->mount().c_str(), (aside_ + "/link").c_str()), 0);
  EXPECT_EQ(*mount_point_of(aside_ + "/link/x"), server_->mount());
  EXPECT_TRUE(open_builtin(aside_ + "/link").ok());
}

// usrbio.md §11.11: upstream never finds such a one.
TEST_F(MountsTest, AMountPointWithASpaceIsFound) {
  const Bind bind(server_->mount(), aside_ + "/my 3fs");
  ASSERT_TRUE(bind.bound());
  EXPECT_EQ(*mount_point_of(aside_ + "/my 3fs/x"), aside_ + "/my 3fs");
  EXPECT_TRUE(open_builtin(aside_ + "/my 3fs").ok());
}

TEST_F(MountsTest, ABindOfASubfolderIsReachedThroughTheWholeMount) {
  fs::create_directories(server_->mount() + "/kv");
  const Bind bind(server_->mount() + "/kv", aside_ + "/kv");
  ASSERT_TRUE(bind.bound());
  EXPECT_EQ(*mount_point_of(aside_ + "/kv/x"), server_->mount());
  EXPECT_TRUE(open_builtin(aside_ + "/kv").ok());
}

// usrbio.md §11.11: what a container gets that has the virtual folder and its own data only.
TEST_F(MountsTest, ABindOfTheVirtualFolderStandsForTheWholeMount) {
  fs::create_directories(server_->mount() + "/kv");
  const Bind data(server_->mount() + "/kv", aside_ + "/kv");
  const Bind virtual_folder(server_->mount() + "/3fs-virt", aside_ + "/3fs-virt");
  ASSERT_TRUE(data.bound() && virtual_folder.bound());
  EXPECT_EQ(*mount_point_of(aside_ + "/kv/x"), aside_);
  auto client = open_builtin(aside_ + "/kv");
  ASSERT_TRUE(client.ok()) << client.status().text();
  EXPECT_TRUE((*client)->alive());
  EXPECT_TRUE((*client)->make_ring({}).ok());
}

TEST_F(MountsTest, AnotherIoctlVersionIsRefusedByItsNumber) {
  ASSERT_TRUE(server_->set("ioctl.version", "7").ok());
  const auto client = open_builtin(server_->mount());
  EXPECT_EQ(client.status().code(), Code::kUnsupportedVersion);
  EXPECT_NE(client.status().text().find("version 7"), std::string::npos);
}

TEST_F(MountsTest, ADeadMountIsASentence) {
  fs::create_directories(server_->mount() + "/a");
  server_->kill();
  for (const std::string below : {"", "/a", "/not/there"}) {
    const auto point = mount_point_of(server_->mount() + below);
    EXPECT_EQ(point.status().code(), Code::kUnavailable) << below;
    EXPECT_NE(point.status().text().find("its fuse daemon has died"), std::string::npos);
    EXPECT_FALSE(open_builtin(server_->mount() + below).ok());
  }
}

// usrbio.md §2: with auto_unmount the mount point is a plain folder afterwards.
TEST_F(MountsTest, AMountThatIsGoneIsAPlainFolderAndNothingIsWrittenThere) {
  auto client = open_builtin(server_->mount()).take();
  server_->kill();
  server_->detach();
  fs::create_directories(server_->mount() + "/3fs-virt/iovs");
  EXPECT_FALSE(client->alive());
  EXPECT_FALSE(client->make_ring({}).ok());
  EXPECT_TRUE(fs::is_empty(server_->mount() + "/3fs-virt/iovs"));
  fs::remove_all(server_->mount() + "/3fs-virt");
}

// usrbio.md §11.8
TEST_F(MountsTest, RingsNeverWaitForAServerThatHangs) {
  auto client = open_builtin(server_->mount()).take();
  const std::string shared = "/dev/shm/" + test_name();
  std::ofstream(shared) << std::string(4096, '-');
  const UniqueFd memory_fd(::open(shared.c_str(), O_RDWR | O_CLOEXEC));
  const auto mapped = MappedMemory::map(memory_fd.get(), 0, 4096, Access::kReadWrite).take();
  auto memory = client->register_memory(shared, {mapped.data(), 4096}).take();
  ::unlink(shared.c_str());
  const UniqueFd fd(::open((server_->mount() + "/f").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  auto file = client->register_file(fd.get()).take();
  auto ring = client->make_ring({.entries = 2, .for_read = false}).take();
  server_->stop_process();
  Completion ended[2];
  for (uint64_t i = 0; i < 2; ++i)
    EXPECT_EQ(ring->prepare(*memory, mapped.data(), 10, *file, 10 * i, i), 0);
  EXPECT_EQ(ring->prepare(*memory, mapped.data(), 10, *file, 20, 2), -EAGAIN);
  ring->submit();
  EXPECT_EQ(ring->poll(ended), 0u);
  server_->continue_process();
  size_t got = 0;
  for (int polls = 0; polls < 20'000 && got < 2; ++polls) {
    got += ring->poll(std::span(ended).subspan(got));
    ::poll(nullptr, 0, got < 2 ? 1 : 0);
  }
  EXPECT_EQ(got, 2u);
}

}  // namespace
}  // namespace kvsidecar::usrbio
