// SPDX-License-Identifier: Apache-2.0
// Goal: a fuse daemon that dies is noticed, hurts nothing, and is used again when it is back.
// Method: the server is killed with I/O in flight and started again.
#include <algorithm>

#include "tests/usrbio/clients/bed.h"

namespace kvsidecar::usrbio {
namespace {

class ClientRestartTest : public ClientTest {
 protected:
  void TearDown() override {
    tools_ = {};
    if (!up_) subject().restart();
    ClientTest::TearDown();
  }
  void kill() {
    subject().kill();
    up_ = false;
  }
  void restart() {
    subject().restart();
    up_ = true;
  }
  bool up_ = true;
};

TEST_F(ClientRestartTest, ADeadServerIsNotAliveAndItsRingsStaySilent) {
  make_tools();
  UniqueFd fd = file_of_chunks("a", {0});
  auto file = registered(fd.get());
  kill();
  EXPECT_FALSE(tools_.client->alive());
  const int taken = tools_.reads->prepare(*tools_.memory, shared_.all().data(), 10, *file, 0, 1);
  if (taken == 0) tools_.reads->submit();
  Completion ended;
  EXPECT_EQ(tools_.reads->poll({&ended, 1}), 0u);
  EXPECT_FALSE(tools_.reads->has_completion());
  EXPECT_FALSE(tools_.client->make_ring({.entries = 4}).ok());
  EXPECT_FALSE(tools_.client->register_memory(shared_.path(), shared_.all()).ok());
  EXPECT_FALSE(subject().open(folder_).ok());
}

TEST_F(ClientRestartTest, AfterARestartEverythingIsMadeAnewOnTheSameMemory) {
  make_tools();
  const auto content = pattern(5000, 7);
  {
    const UniqueFd fd = open("a");
    const auto file = registered(fd.get());
    std::copy(content.begin(), content.end(), shared_.all().begin());
    ASSERT_EQ(transfer(*tools_.writes, *file, 0, content.size()), 5000);
    ASSERT_EQ(::fsync(fd.get()), 0);
  }
  kill();
  restart();
  EXPECT_FALSE(tools_.client->alive());
  tools_ = {};
  make_tools();
  EXPECT_TRUE(tools_.client->alive());
  const UniqueFd fd = open("a", O_RDWR);
  const auto file = registered(fd.get());
  ASSERT_EQ(transfer(*tools_.reads, *file, 0, content.size(), 8192), 5000);
  EXPECT_TRUE(std::ranges::equal(bytes(8192, content.size()), content));
}

TEST_F(ClientRestartTest, AFileOfTheMountBeforeIsRefused) {
  make_tools();
  UniqueFd old = file_of_chunks("a", {0});
  kill();
  restart();
  tools_ = {};
  make_tools();
  if (subject().child_arguments().empty()) GTEST_SKIP() << "the server's files outlive it here";
  EXPECT_FALSE(tools_.client->register_file(old.get()).ok());
}

// usrbio.md §11.4: a number that was registered when the server died can be registered again.
TEST_F(ClientRestartTest, ADescriptorNumberOfTheMountBeforeIsUsedAgain) {
  make_tools();
  UniqueFd old = file_of_chunks("a", {0});
  const int number = old.get();
  auto file = registered(number);
  kill();
  file.reset();
  old.reset();
  restart();
  tools_ = {};
  make_tools();
  UniqueFd fresh = open("a", O_RDWR), moved;
  if (fresh.get() != number) {
    ASSERT_EQ(::dup3(fresh.get(), number, O_CLOEXEC), number);
    moved.reset(number);
  }
  file = registered(number);
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(transfer(*tools_.reads, *file, 0, 10), 10);
}

TEST_F(ClientRestartTest, ManyRestartsLeaveNothing) {
  std::map<std::string, int64_t> before;
  for (int life = 0; life < 3; ++life) {
    ASSERT_EQ(tools_.make(folder_, shared_).text(), "");
    kill();
    tools_ = {};
    restart();
    if (life == 0) before = belongings();
  }
  EXPECT_EQ(belongings(), before);
}

}  // namespace
}  // namespace kvsidecar::usrbio
