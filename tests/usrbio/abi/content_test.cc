// SPDX-License-Identifier: Apache-2.0
// Goal: bytes arrive exactly, and what isn't stored is short, zero or an error by the rules of
// chunks. Method: files of which only some chunks were written, read across their borders.
#include <fcntl.h>

#include <cstring>

#include "tests/usrbio/abi/bed.h"

namespace kvsidecar::abi {
namespace {

class Content : public Bed {
 protected:
  void SetUp() override {
    Bed::SetUp();
    make(iov_, 8 * chunk());
    std::memset(iov_.base, 0xee, iov_.size);
  }
  static std::vector<uint8_t> head(std::vector<uint8_t> bytes, uint64_t count) {
    bytes.resize(count);
    return bytes;
  }
  std::vector<uint8_t> at(uint64_t offset, uint64_t bytes) const {
    return {iov_.base + offset, iov_.base + offset + bytes};
  }
  const std::vector<uint8_t> zeros_ = std::vector<uint8_t>(chunk());
  const std::vector<uint8_t> untouched_ = std::vector<uint8_t>(chunk(), 0xee);
  Iov iov_;
};

TEST_F(Content, ReadsBringExactlyTheBytesThatWereAskedFor) {
  const std::vector<uint8_t> content = pattern(3 * chunk());
  const UniqueFd made = file("a", content);
  const Registered registered(made.get());
  for (const uint64_t offset : {uint64_t{0}, uint64_t{1}, chunk() - 1, chunk(), 2 * chunk() + 77}) {
    for (const uint64_t bytes : {uint64_t{1}, uint64_t{13}, uint64_t{4096}, chunk() - 77}) {
      std::memset(iov_.base, 0xee, 2 * chunk());
      ASSERT_EQ(one_read(iov_, 3, made.get(), offset, bytes), static_cast<int64_t>(bytes));
      EXPECT_EQ(std::memcmp(iov_.base + 3, content.data() + offset, bytes), 0);
      EXPECT_EQ(iov_.base[2], 0xee);
      EXPECT_EQ(iov_.base[3 + bytes], 0xee);
    }
  }
}

TEST_F(Content, WhatIsWrittenIsReadAgainByBothWays) {
  const std::vector<uint8_t> content = pattern(2 * chunk() + 100, 5);
  const UniqueFd made = open("a", O_RDWR | O_CREAT | O_EXCL);
  const Registered registered(made.get());
  std::copy(content.begin(), content.end(), iov_.base);
  ASSERT_EQ(one_write(iov_, 0, made.get(), 0, content.size()),
            static_cast<int64_t>(content.size()));
  std::memset(iov_.base, 0, content.size());
  ASSERT_EQ(one_read(iov_, 0, made.get(), 0, content.size()), static_cast<int64_t>(content.size()));
  EXPECT_EQ(at(0, content.size()), content);
  ASSERT_EQ(::fsync(made.get()), 0);
  std::vector<uint8_t> plain(content.size());
  EXPECT_EQ(::pread(made.get(), plain.data(), plain.size(), 0), static_cast<ssize_t>(plain.size()));
  EXPECT_EQ(plain, content);
}

TEST_F(Content, TheEndOfAFileIsAShortRead) {
  const UniqueFd made = file("a", pattern(1000));
  const Registered registered(made.get());
  EXPECT_EQ(one_read(iov_, 0, made.get(), 900, 500), 100);
  EXPECT_EQ(one_read(iov_, 0, made.get(), 1000, 10), 0);
  EXPECT_EQ(one_read(iov_, 0, made.get(), 100 * chunk(), 10), 0);
}

TEST_F(Content, AChunkThatWasNeverWrittenIsShortThoughTheFileIsLonger) {
  const UniqueFd made = sparse_file("a", 4 * chunk(), {0, 3});
  const Registered registered(made.get());
  EXPECT_EQ(one_read(iov_, 0, made.get(), chunk(), chunk()), 0);
  EXPECT_EQ(at(0, chunk()), untouched_);
  EXPECT_EQ(one_read(iov_, 0, made.get(), 0, 2 * chunk()), static_cast<int64_t>(chunk()));
  EXPECT_EQ(at(0, chunk()), pattern(chunk(), 1));
  EXPECT_EQ(at(chunk(), chunk()), untouched_);
}

TEST_F(Content, AHoleBeforeStoredBytesOfTheSameRequestIsZeros) {
  const UniqueFd made = sparse_file("a", 4 * chunk(), {0, 3});
  const Registered registered(made.get());
  ASSERT_EQ(one_read(iov_, 0, made.get(), 0, 4 * chunk()), static_cast<int64_t>(4 * chunk()));
  EXPECT_EQ(at(0, chunk()), pattern(chunk(), 1));
  EXPECT_EQ(at(chunk(), chunk()), zeros_);
  EXPECT_EQ(at(2 * chunk(), chunk()), zeros_);
  EXPECT_EQ(at(3 * chunk(), chunk()), pattern(chunk(), 4));
}

TEST_F(Content, AForbiddenHoleIsAnErrorButNotAtTheEnd) {
  const UniqueFd made = sparse_file("a", 4 * chunk(), {0, 3});
  const Registered registered(made.get());
  EXPECT_EQ(one_read(iov_, 0, made.get(), 0, 4 * chunk(), kForbidReadHoles), -ENODATA);
  EXPECT_EQ(one_read(iov_, 0, made.get(), 0, chunk(), kForbidReadHoles),
            static_cast<int64_t>(chunk()));
}

TEST_F(Content, ALongerLengthMakesOnlyTheLastChunk) {
  const UniqueFd made = file("a", pattern(100));
  ASSERT_EQ(::ftruncate(made.get(), static_cast<off_t>(3 * chunk())), 0);
  const Registered registered(made.get());
  EXPECT_EQ(one_read(iov_, 0, made.get(), chunk(), chunk()), 0);
  EXPECT_EQ(one_read(iov_, 0, made.get(), 2 * chunk(), chunk()), static_cast<int64_t>(chunk()));
  EXPECT_EQ(at(0, chunk()), zeros_);
}

TEST_F(Content, AShorterLengthTakesChunksAway) {
  const UniqueFd made = file("a", pattern(3 * chunk()));
  const Registered registered(made.get());
  ASSERT_EQ(::ftruncate(made.get(), static_cast<off_t>(chunk() + 10)), 0);
  EXPECT_EQ(one_read(iov_, 0, made.get(), 0, 3 * chunk()), static_cast<int64_t>(chunk() + 10));
}

TEST_F(Content, AWriteBehindTheEndExtendsTheFileAndFillsItsChunk) {
  const UniqueFd made = file("a", pattern(100));
  const Registered registered(made.get());
  ASSERT_EQ(one_write(iov_, 0, made.get(), 2 * chunk() + 50, 10), 10);
  EXPECT_EQ(one_read(iov_, 0, made.get(), 2 * chunk(), 100), 60);
  EXPECT_EQ(at(0, 50), head(zeros_, 50));
  EXPECT_EQ(at(50, 10), head(untouched_, 10));
  EXPECT_EQ(one_read(iov_, 0, made.get(), chunk(), chunk()), 0);
}

TEST_F(Content, APunchedChunkIsAHole) {
  const UniqueFd made = file("a", pattern(4 * chunk()));
  const Registered registered(made.get());
  const size_t start[] = {chunk()}, end[] = {3 * chunk()}, odd[] = {3 * chunk() + 1};
  EXPECT_EQ(library_.punchhole(made.get(), 1, start, odd, 0), EINVAL);
  ASSERT_EQ(library_.punchhole(made.get(), 1, start, end, 0), 0);
  EXPECT_EQ(one_read(iov_, 0, made.get(), chunk(), 2 * chunk()), 0);
  EXPECT_EQ(one_read(iov_, 0, made.get(), 0, 4 * chunk()), static_cast<int64_t>(4 * chunk()));
  EXPECT_EQ(at(chunk(), chunk()), zeros_);
}

TEST_F(Content, ARequestStaysInOneBlock) {
  const UniqueFd made = file("a", pattern(chunk()));
  const Registered registered(made.get());
  Iov blocks;
  make(blocks, 16'384, 4096);
  EXPECT_EQ(one_read(blocks, 4096, made.get(), 0, 4096), 4096);
  EXPECT_EQ(one_read(blocks, 4000, made.get(), 0, 200), -EINVAL);
}

TEST_F(Content, AFolderIsNoFileForRings) {
  const UniqueFd folder = open(".", O_RDONLY | O_DIRECTORY);
  const Registered registered(folder.get());
  EXPECT_EQ(one_read(iov_, 0, folder.get(), 0, 10), -EBADF);
}

}  // namespace
}  // namespace kvsidecar::abi
