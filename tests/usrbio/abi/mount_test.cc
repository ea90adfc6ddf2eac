// SPDX-License-Identifier: Apache-2.0
// Goal: what lies on 3FS and where it is mounted. Method: files on the mount and off it.
#include <fcntl.h>

#include <cstring>

#include "tests/usrbio/abi/bed.h"

namespace kvsidecar::abi {
namespace {

using Mount = Bed;

TEST_F(Mount, FilesAndFoldersOfTheMountAreOnIt) {
  const UniqueFd made = file("a", pattern(10));
  EXPECT_TRUE(library_.is_hf3fs(made.get()));
  EXPECT_TRUE(library_.is_hf3fs(open(".", O_RDONLY | O_DIRECTORY).get()));
}

TEST_F(Mount, OtherFilesPipesAndClosedNumbersAreNot) {
  const UniqueFd other(::open("/proc/self/status", O_RDONLY | O_CLOEXEC));
  EXPECT_FALSE(library_.is_hf3fs(other.get()));
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd in(ends[0]), out(ends[1]);
  EXPECT_FALSE(library_.is_hf3fs(ends[0]));
  EXPECT_FALSE(library_.is_hf3fs(-1));
  EXPECT_FALSE(library_.is_hf3fs(1'000'000));
}

TEST_F(Mount, ItsPlaceIsFoundFromAnyPathBelow) {
  char found[512];
  const int bytes = static_cast<int>(mount().size()) + 1;
  EXPECT_EQ(library_.extract_mount_point(found, sizeof found, folder_.c_str()), bytes);
  EXPECT_EQ(found, mount());
  EXPECT_EQ(library_.extract_mount_point(found, sizeof found, mount().c_str()), bytes);
  EXPECT_EQ(found, mount());
}

TEST_F(Mount, ASmallBufferLearnsTheSizeAndIsLeftAlone) {
  const int bytes = static_cast<int>(mount().size()) + 1;
  std::string untouched(512, '#');
  for (const int size : {0, 1, bytes - 1}) {
    EXPECT_EQ(library_.extract_mount_point(untouched.data(), size, folder_.c_str()), bytes);
    EXPECT_EQ(untouched, std::string(512, '#'));
  }
  EXPECT_EQ(library_.extract_mount_point(untouched.data(), bytes, folder_.c_str()), bytes);
  EXPECT_STREQ(untouched.c_str(), mount().c_str());
}

TEST_F(Mount, APathElsewhereHasNone) {
  char found[512];
  EXPECT_EQ(library_.extract_mount_point(found, sizeof found, "/proc/self/status"), -1);
}

TEST_F(Mount, APathThatIsNotThereThrowsOrHasNone) {
  char found[512];
  const std::string missing = path("missing");
  const auto call = [&] {
    return library_.extract_mount_point(found, sizeof found, missing.c_str());
  };
  if (traits_.throws) {
    EXPECT_THROW(call(), std::exception);
  } else {
    EXPECT_EQ(call(), -1);
  }
}

TEST_F(Mount, AHardLinkNamesTheSameFile) {
  const UniqueFd made = file("a", pattern(10));
  EXPECT_EQ(library_.hardlink(path("a").c_str(), path("b").c_str()), 0);
  EXPECT_EQ(::access(path("b").c_str(), F_OK), 0);
  EXPECT_EQ(library_.hardlink(path("missing").c_str(), path("c").c_str()), ENOENT);
  EXPECT_EQ(library_.hardlink(path("a").c_str(), path("b").c_str()), EEXIST);
}

}  // namespace
}  // namespace kvsidecar::abi
