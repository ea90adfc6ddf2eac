// SPDX-License-Identifier: Apache-2.0
// Goal: processes share a mount and its files, and one that dies leaves nothing. Method: this
// program runs itself as another client.
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>

#include "tests/usrbio/clients/bed.h"
#include "tests/usrbio/clients/child.h"

namespace kvsidecar::usrbio {
namespace {

class ClientProcessesTest : public ClientTest {
 protected:
  void SetUp() override {
    ClientTest::SetUp();
    if (subject().child_arguments().empty())
      GTEST_SKIP() << "the server of " << subject().name() << " lives in this process only";
  }
};

TEST_F(ClientProcessesTest, WhatOneWritesTheOtherReads) {
  make_tools();
  ASSERT_EQ(run_child({"write", path("a"), "5000", "11"}), 0);
  const UniqueFd fd = open("a", O_RDONLY);
  const auto file = registered(fd.get());
  ASSERT_EQ(transfer(*tools_.reads, *file, 0, 5000), 5000);
  EXPECT_TRUE(std::ranges::equal(bytes(0, 5000), pattern(5000, 11)));
}

TEST_F(ClientProcessesTest, OneThatEndsTakesOnlyItsOwnAway) {
  make_tools();
  const UniqueFd fd = file_of_chunks("a", {0});
  const auto file = registered(fd.get());
  const auto before = belongings();
  ASSERT_EQ(run_child({"write", path("b"), "5000", "11"}), 0);
  EXPECT_EQ(belongings(), before);
  EXPECT_EQ(transfer(*tools_.reads, *file, 0, 10), 10);
}

// usrbio.md §9.7: what the mount thread of a dead process made is dropped.
TEST_F(ClientProcessesTest, OneThatIsKilledLeavesNothing) {
  make_tools();
  const auto before = belongings();
  Child child = start_child({"hold", path("a")});
  ASSERT_TRUE(child.wait_for_line());
  EXPECT_EQ(subject().count("rings"), before.at("rings") + 2);
  EXPECT_EQ(subject().count("iovs"), before.at("iovs") + 1);
  child.kill();
  EXPECT_TRUE(eventually([&] {
    return subject().count("rings") == before.at("rings") &&
           subject().count("iovs") == before.at("iovs");
  }));
  const UniqueFd fd = file_of_chunks("b", {0});
  const auto file = registered(fd.get());
  EXPECT_EQ(transfer(*tools_.reads, *file, 0, 10), 10);
}

}  // namespace
}  // namespace kvsidecar::usrbio
