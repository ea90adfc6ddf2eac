// SPDX-License-Identifier: Apache-2.0
// Goal: the 3FS that holds a path is found in any table of mounts. Method: tables as text.
#include "sidecar/store/usrbio/mount_table.h"

#include <gtest/gtest.h>

#include "sidecar/store/usrbio/client.h"
#include "sidecar/store/usrbio/protocol.h"

namespace kvsidecar::usrbio {
namespace {

constexpr char kTable[] =
    "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
    "30 22 0:50 / /3fs/stage rw,nosuid shared:5 master:2 - fuse.hf3fs hf3fs.stage rw,user_id=0\n"
    "31 22 0:51 / /my\\040data rw - fuse.hf3fs hf3fs.b rw\n"
    "32 22 0:50 /kv/a /srv/kv rw - fuse.hf3fs hf3fs.stage rw\n"
    "33 22 0:50 /3fs-virt /box/3fs-virt rw - fuse.hf3fs hf3fs.stage rw\n"
    "34 30 0:60 / /3fs/stage/other rw - tmpfs tmpfs rw\n"
    "35 22 0:61 / /old rw - fuse.hf3fs hf3fs.old rw\n"
    "36 22 0:62 / /old rw - tmpfs tmpfs rw\n"
    "37 22 0:63 / /home rw - fuse.sshfs x rw\n";

std::string device_at(std::string_view path) {
  const auto table = parse_mount_table(kTable);
  const MountEntry* entry = mount_that_holds(table, path);
  return entry ? entry->device : "";
}

std::vector<std::string> ways(std::string_view path) {
  const auto table = parse_mount_table(kTable);
  return ways_to_virtual_folder(table, *mount_that_holds(table, path), path);
}

TEST(MountTableTest, FieldsAreReadAndSpacesDecoded) {
  const auto table = parse_mount_table(kTable);
  ASSERT_EQ(table.size(), 9u);
  EXPECT_EQ(table[1].type, kFileSystemType);
  EXPECT_EQ(table[1].point, "/3fs/stage");
  EXPECT_EQ(table[2].point, "/my data");
  EXPECT_EQ(table[3].root, "/kv/a");
}

TEST(MountTableTest, OtherLinesAreLeftOut) {
  EXPECT_TRUE(parse_mount_table("").empty());
  EXPECT_TRUE(parse_mount_table("\n\nnonsense\n1 2 3 4 5 6\n1 2 0:1 / /a rw - \n").empty());
  EXPECT_EQ(parse_mount_table("1 2 0:1 / /a rw - t s").size(), 1u);
}

TEST(MountTableTest, ABackslashThatIsNoEscapeStays) {
  EXPECT_EQ(parse_mount_table("1 2 0:1 / /a\\b\\04 rw - t s")[0].point, "/a\\b\\04");
}

TEST(MountTableTest, TheLongestMountAboveThePathHoldsIt) {
  EXPECT_EQ(device_at("/"), "254:0");
  EXPECT_EQ(device_at("/3fs"), "254:0");
  EXPECT_EQ(device_at("/3fs/stage"), "0:50");
  EXPECT_EQ(device_at("/3fs/stage/deep/er"), "0:50");
  EXPECT_EQ(device_at("/3fs/stagehand"), "254:0");
  EXPECT_EQ(device_at("/3fs/stage/other/x"), "0:60");
  EXPECT_EQ(device_at("/my data/x"), "0:51");
}

TEST(MountTableTest, OfTwoAtOnePlaceTheLastOneHoldsIt) { EXPECT_EQ(device_at("/old/x"), "0:62"); }

TEST(MountTableTest, TheVirtualFolderIsReachedThroughTheMountAboveThePath) {
  EXPECT_EQ(ways("/3fs/stage/x").front(), "/3fs/stage");
  EXPECT_EQ(ways("/my data"), (std::vector<std::string>{"/my data"}));
}

TEST(MountTableTest, ABindOfASubfolderGoesThroughTheOtherMountsOfThatFileSystem) {
  EXPECT_EQ(ways("/srv/kv/x"), (std::vector<std::string>{"/3fs/stage", "/box"}));
}

TEST(MountTableTest, ABindOfTheVirtualFolderCountsAsItsParent) {
  EXPECT_EQ(ways("/box/3fs-virt").front(), "/box");
}

TEST(MountPointTest, APathOffThreeFsHasNone) {
  const auto point = mount_point_of("/proc/self/status");
  ASSERT_TRUE(point.ok());
  EXPECT_EQ(*point, "");
}

TEST(MountPointTest, APathThatIsNotThereYetIsThatOfItsParent) {
  const auto point = mount_point_of("/proc/nothing/is/here/");
  ASSERT_TRUE(point.ok()) << point.status().text();
  EXPECT_EQ(*point, "");
}

TEST(MountPointTest, AnEmptyPathIsRefused) {
  EXPECT_EQ(mount_point_of("").status().code(), Code::kInvalid);
}

TEST(MountPointTest, TheBuiltinClientSaysThatAPathIsNotOnThreeFs) {
  const auto client = open_builtin("/proc/self");
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.status().code(), Code::kInvalid);
  EXPECT_NE(client.status().text().find("/proc/self doesn't lie on 3FS"), std::string::npos);
}

}  // namespace
}  // namespace kvsidecar::usrbio
