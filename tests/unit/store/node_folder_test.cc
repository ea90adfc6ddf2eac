// SPDX-License-Identifier: Apache-2.0
// Goal: a folder of the store belongs to one node and one live daemon, and no epoch comes twice.
// Method: real folders, claimed twice, renamed, damaged.
#include "sidecar/store/node_folder.h"

#include <fcntl.h>

#include <fstream>

#include "tests/support/plain_user.h"
#include "tests/unit/store/store_fixture.h"

namespace kvsidecar {
namespace {

TEST(NodeFolder, TheSameNodeFindsItsFolderAgainWithAHigherEpoch) {
  TemporaryFolder root, state;
  std::string path;
  uint32_t epoch = 0;
  for (int life = 0; life < 3; ++life) {
    auto folder = NodeFolder::claim(root.path(), state.path(), 0);
    ASSERT_TRUE(folder.ok()) << folder.status().text();
    if (life > 0) {
      EXPECT_EQ(folder->path(), path);
    }
    path = folder->path();
    EXPECT_GT(folder->epoch(), epoch);
    epoch = folder->epoch();
    EXPECT_EQ(path, root.path() + "/" + to_hex(folder->node()) + ".0");
  }
}

TEST(NodeFolder, NodesWithDifferentStateShareARoot) {
  TemporaryFolder root, state_a, state_b;
  auto a = NodeFolder::claim(root.path(), state_a.path(), 0);
  auto b = NodeFolder::claim(root.path(), state_b.path(), 0);
  ASSERT_TRUE(a.ok());
  ASSERT_TRUE(b.ok());
  EXPECT_NE(a->path(), b->path());
  EXPECT_NE(a->node(), b->node());
}

TEST(NodeFolder, ASecondLiveDaemonIsRefusedWithTheFirstOnesPid) {
  TemporaryFolder root, state;
  auto first = NodeFolder::claim(root.path(), state.path(), 0);
  ASSERT_TRUE(first.ok());
  auto second = NodeFolder::claim(root.path(), state.path(), 0);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), Code::kDenied);
  EXPECT_NE(second.status().text().find("pid " + std::to_string(getpid())), std::string::npos);
  EXPECT_TRUE(NodeFolder::claim(root.path(), state.path(), 1).ok());
}

TEST(NodeFolder, AFolderOfAnotherNodeIsRefusedByName) {
  TemporaryFolder root, state_a, state_b;
  std::string path_a, node_a;
  {
    auto a = NodeFolder::claim(root.path(), state_a.path(), 0);
    ASSERT_TRUE(a.ok());
    path_a = a->path();
    node_a = to_hex(a->node());
  }
  const auto uuid_b = node_uuid(state_b.path());
  ASSERT_TRUE(uuid_b.ok());
  std::filesystem::rename(path_a, root.path() + "/" + to_hex(*uuid_b) + ".0");
  const auto b = NodeFolder::claim(root.path(), state_b.path(), 0);
  ASSERT_FALSE(b.ok());
  EXPECT_NE(b.status().text().find("belongs to node " + node_a), std::string::npos)
      << b.status().text();
}

TEST(NodeFolder, AnEpochIsNotUsedAgainWhenItsFileIsLost) {
  TemporaryFolder root, state;
  std::string path;
  {
    auto folder = NodeFolder::claim(root.path(), state.path(), 0);
    ASSERT_TRUE(folder.ok());
    path = folder->path();
  }
  std::ofstream(path + "/" + segment_name(41ull << 32 | 1)) << "x";
  std::filesystem::remove(path + "/epoch");
  auto folder = NodeFolder::claim(root.path(), state.path(), 0);
  ASSERT_TRUE(folder.ok());
  EXPECT_EQ(folder->epoch(), 42u);
}

TEST(NodeFolder, AfterTheLastEpochTheFolderIsRefusedWithTheRemedy) {
  const std::string last = "4294967295\n";
  for (const bool in_a_name : {false, true}) {
    TemporaryFolder root, state;
    const auto uuid = node_uuid(state.path());
    ASSERT_TRUE(uuid.ok());
    const std::string path = root.path() + "/" + to_hex(*uuid) + ".0";
    std::filesystem::create_directory(path);
    if (in_a_name)
      std::ofstream(path + "/" + segment_name(0xffffffffull << 32 | 1)) << "x";
    else
      std::ofstream(path + "/epoch") << last;
    const auto folder = NodeFolder::claim(root.path(), state.path(), 0);
    ASSERT_FALSE(folder.ok());
    EXPECT_NE(folder.status().text().find("move the folder away"), std::string::npos);
  }
}

TEST(NodeFolder, AnEpochFileThatHoldsNoNumberCountsAsLost) {
  for (const char* text : {"", "x", "-1", "99999999999999999999", "\n"}) {
    TemporaryFolder root, state;
    std::string path;
    {
      auto folder = NodeFolder::claim(root.path(), state.path(), 0);
      ASSERT_TRUE(folder.ok());
      path = folder->path();
    }
    std::ofstream(path + "/" + segment_name(41ull << 32 | 1)) << "x";
    std::ofstream(path + "/epoch") << text;
    auto folder = NodeFolder::claim(root.path(), state.path(), 0);
    ASSERT_TRUE(folder.ok()) << text;
    EXPECT_EQ(folder->epoch(), 42u) << text;
  }
}

TEST(NodeFolder, ADamagedUuidIsRefusedWithTheRemedy) {
  TemporaryFolder root, state;
  std::ofstream(state.path() + "/node") << "not a uuid\n";
  const auto folder = NodeFolder::claim(root.path(), state.path(), 0);
  ASSERT_FALSE(folder.ok());
  EXPECT_NE(folder.status().text().find("32 hexadecimal digits"), std::string::npos);
}

TEST(NodeFolder, AMissingRootIsNamed) {
  TemporaryFolder state;
  const auto folder = NodeFolder::claim("/nonexistent-root", state.path(), 0);
  ASSERT_FALSE(folder.ok());
  EXPECT_NE(folder.status().text().find("/nonexistent-root"), std::string::npos);
}

// The refusal of a claim by somebody who is neither root nor the owner.
void refused_to_a_plain_user(const std::string& root, const std::string& state,
                             const std::string& what, const std::string& remedy) {
  const PlainUser somebody;
  const auto folder = NodeFolder::claim(root, state, 0);
  ASSERT_FALSE(folder.ok());
  EXPECT_EQ(folder.status().code(), Code::kInvalid);
  for (const std::string& part :
       {"store.root = \"" + root + "\"", what + " can't be written by " + own_user(), remedy})
    EXPECT_NE(folder.status().text().find(part), std::string::npos) << folder.status().text();
}

TEST(NodeFolder, ARootThatMayNotBeWrittenIsRefusedWithKeyUserAndRemedy) {
  TemporaryFolder root, state;
  ASSERT_TRUE(node_uuid(state.path()).ok());
  for (const std::string& path : {root.path(), state.path()})
    std::filesystem::permissions(path, std::filesystem::perms(0555));
  std::filesystem::permissions(state.path() + "/node", std::filesystem::perms(0444));
  refused_to_a_plain_user(root.path(), state.path(), "", "; chown ");
  for (const std::string& path : {root.path(), state.path()})
    std::filesystem::permissions(path, std::filesystem::perms(0755));
}

// As a daemon leaves it that ran as root once.
TEST(NodeFolder, AFolderThatMayNotBeWrittenIsRefusedByName) {
  TemporaryFolder root, state;
  std::string folder;
  {
    auto claimed = NodeFolder::claim(root.path(), state.path(), 0);
    ASSERT_TRUE(claimed.ok());
    folder = claimed->path();
  }
  for (const std::string& path : {root.path(), state.path(), folder})
    std::filesystem::permissions(path, std::filesystem::perms(0555));
  std::filesystem::permissions(state.path() + "/node", std::filesystem::perms(0444));
  refused_to_a_plain_user(root.path(), state.path(), ": " + folder, "; chown -R ");
  for (const std::string& path : {root.path(), state.path(), folder})
    std::filesystem::permissions(path, std::filesystem::perms(0755));
}

}  // namespace
}  // namespace kvsidecar
