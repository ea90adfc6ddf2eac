// SPDX-License-Identifier: Apache-2.0
// Goal: a file's chunks say what of a read is stored. Method: chunks of 16 bytes.
#include "tests/usrbio/core/chunk_map.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ipc/os.h"

namespace kvsidecar::fake3fs {
namespace {

std::string read(const ChunkMap& chunks, uint64_t offset, uint64_t bytes) {
  std::string text;
  for (const ReadPiece& piece : chunks.pieces(offset, bytes))
    text +=
        (text.empty() ? "" : " ") + std::to_string(piece.got) + "/" + std::to_string(piece.wanted);
  return text;
}

TEST(ChunkMap, ReadsAreCutAtChunksAndStoredOnesJoined) {
  ChunkMap chunks(16);
  EXPECT_EQ(read(chunks, 5, 20), "0/11 0/9");
  chunks.written(0, 32);
  chunks.written(48, 10);
  EXPECT_EQ(read(chunks, 0, 32), "32/32");
  EXPECT_EQ(read(chunks, 8, 56), "24/24 0/16 10/16");
  EXPECT_EQ(read(chunks, 50, 20), "8/14 0/6");
  EXPECT_EQ(chunks.end(), 58u);
}

TEST(ChunkMap, AGapInsideAChunkIsStoredAsZeros) {
  ChunkMap chunks(16);
  EXPECT_EQ(chunks.growth(10, 2), 12u);
  chunks.written(10, 2);
  EXPECT_EQ(read(chunks, 0, 16), "12/16");
  EXPECT_EQ(chunks.growth(10, 2), 0u);
  EXPECT_EQ(chunks.growth(12, 20), 4u + 16u);
}

TEST(ChunkMap, ALongerFileGetsOnlyItsLastChunk) {
  ChunkMap chunks(16);
  chunks.written(0, 4);
  chunks.extend(100);
  EXPECT_EQ(read(chunks, 0, 112), "4/16 0/16 0/16 0/16 0/16 0/16 4/16");
  EXPECT_EQ(chunks.end(), 100u);
}

TEST(ChunkMap, CutAndRemoveTakeChunksAway) {
  ChunkMap chunks(16);
  chunks.written(0, 64);
  chunks.remove(1, 1);
  EXPECT_EQ(chunks.stored_bytes(), 48u);
  EXPECT_EQ(read(chunks, 0, 64), "16/16 0/16 32/32");
  chunks.cut(40);
  EXPECT_EQ(chunks.end(), 40u);
  chunks.cut(16);
  EXPECT_EQ(chunks.end(), 16u);
  chunks.cut(0);
  EXPECT_EQ(chunks.stored_bytes(), 0u);
}

TEST(ChunkMap, APlainFilesDataIsItsChunks) {
  constexpr uint64_t kBytes = 64 << 10;
  const UniqueFd fd(::memfd_create("kvsidecar.test-chunks", MFD_CLOEXEC));
  const std::string data(kBytes, 'd');
  ASSERT_EQ(::pwrite(fd.get(), data.data(), kBytes, 2 * kBytes), static_cast<ssize_t>(kBytes));
  ASSERT_EQ(::pwrite(fd.get(), "end", 3, 5 * kBytes), 3);
  const ChunkMap chunks = chunks_of_file(fd.get(), kBytes);
  EXPECT_EQ(chunks.end(), 5 * kBytes + 3);
  EXPECT_EQ(chunks.stored_bytes(), kBytes + 3);
  EXPECT_EQ(chunks.pieces(0, kBytes)[0].got, 0u);
}

}  // namespace
}  // namespace kvsidecar::fake3fs
