// SPDX-License-Identifier: Apache-2.0
// Goal: the doctor says how the store's 3FS is reached, what is wrong with it, and what it saves.
// Method: made-up facts.
#include <gtest/gtest.h>

#include <cerrno>

#include "clients/cli/doctor_usrbio.h"

namespace kvsidecar {
namespace {

constexpr const char* kMounts =
    "22 28 0:21 / /proc rw - proc proc rw\n"
    "28 1 254:0 / / rw - ext4 /dev/vda rw\n"
    "40 28 0:50 / /mnt/3fs rw,nosuid shared:1 - fuse.hf3fs hf3fs.stage rw\n"
    "41 28 0:51 / /mnt/with\\040space rw - fuse.hf3fs hf3fs.stage rw\n"
    "42 40 0:52 / /mnt/3fs/local rw - ext4 /dev/vdb rw\n";

void expect(const Check& check, Verdict verdict, const std::string& part) {
  EXPECT_EQ(check.verdict, verdict) << check.text;
  EXPECT_NE((check.text + check.remedy).find(part), std::string::npos) << check_text(check);
  EXPECT_EQ(check.remedy.empty(), verdict == Verdict::kOk) << check_text(check);
}

TEST(DoctorUsrbio, TheMountThatHoldsAPathIsFound) {
  EXPECT_EQ(mount_3fs_of(kMounts, "/mnt/3fs/cache"), "/mnt/3fs");
  EXPECT_EQ(mount_3fs_of(kMounts, "/mnt/3fs"), "/mnt/3fs");
  EXPECT_EQ(mount_3fs_of(kMounts, "/mnt/with space/x"), "/mnt/with space");
  EXPECT_EQ(mount_3fs_of(kMounts, "/mnt/3fsx"), "");
  EXPECT_EQ(mount_3fs_of(kMounts, "/mnt/3fs/local/x"), "") << "another lies on top";
  EXPECT_EQ(mount_3fs_of(kMounts, "/data"), "");
  EXPECT_EQ(mount_3fs_of("", "/data"), "");
}

TEST(DoctorUsrbio, EachStateOfTheMountIsJudged) {
  const std::string up = "usrbio (builtin, /mnt/3fs)";
  expect(check_3fs("/mnt/3fs/c", "/mnt/3fs", 0, up), Verdict::kOk, "builtin");
  expect(check_3fs("/mnt/3fs/c", "/mnt/3fs", 0, ""), Verdict::kOk, "no daemon");
  expect(check_3fs("/mnt/3fs/c", "", 0, up), Verdict::kFail, "start 3FS's fuse daemon again");
  expect(check_3fs("/mnt/3fs/c", "/mnt/3fs", ENOTCONN, up), Verdict::kFail, "umount -l");
  expect(check_3fs("/mnt/3fs/c", "/mnt/3fs", 0, "file (O_DIRECT)"), Verdict::kWarn,
         "store.kind = \"usrbio\"");
}

TEST(DoctorUsrbio, AStoreThatIsAwayFails) {
  expect(check_store("usrbio (builtin, /mnt/3fs)"), Verdict::kOk, "builtin");
  expect(check_store("usrbio (no mount; the mount is lost; its pages are misses until it is back)"),
         Verdict::kFail, "comes back by itself");
}

// 16 clients a rank, 8 entries each, a read and a write buffer of as many pages.
TEST(DoctorUsrbio, TheMemoryOfTheEnginesOwnClientsIsComputed) {
  Account account;
  account.pool_bytes = uint64_t{8} << 30;
  expect(check_3fs_memory(account), Verdict::kOk, "16 x 8 x 2 x 1.0 MiB = 256.0 MiB");
  account.slots_full = 10;
  account.pool_page_bytes = 40u << 20;
  expect(check_3fs_memory(account), Verdict::kOk, "= 1.0 GiB for each rank, 8.0 GiB for 8");
}

TEST(DoctorUsrbio, AStoreElsewhereIsNoConcernOfIt) {
  EXPECT_TRUE(check_3fs_store("/proc", "file (O_DIRECT)", nullptr).empty());
  EXPECT_TRUE(check_3fs_store("", "none", nullptr).empty());
}

}  // namespace
}  // namespace kvsidecar
