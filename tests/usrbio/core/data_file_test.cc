// SPDX-License-Identifier: Apache-2.0
// Goal: bytes, length and space of a file follow 3FS's rules. Method: a file in memory with chunks
// of 16 bytes.
#include "tests/usrbio/core/data_file.h"

#include <cerrno>

#include "tests/usrbio/core/scene.h"

namespace kvsidecar::fake3fs {
namespace {

class DataFileTest : public Scene {
 protected:
  DataFile& file = *files[kFile];

  std::string read(uint64_t offset, uint64_t bytes) {
    std::vector<std::byte> into(bytes, static_cast<std::byte>('?'));
    auto pieces = file.pieces(offset, bytes);
    EXPECT_EQ(file.move(offset, into, pieces), 0);
    std::string text(reinterpret_cast<const char*>(into.data()), bytes);
    for (char& letter : text)
      if (letter == '\0') letter = '0';
    return text;
  }
  int64_t write(uint64_t offset, const std::string& text, bool settle) {
    return file.write(offset, {reinterpret_cast<const std::byte*>(text.data()), text.size()},
                      settle);
  }
};

TEST_F(DataFileTest, InnerHolesAreZerosAndATailIsLeftAsItWas) {
  store(0, "abcd");
  store(32, "wxyz");
  EXPECT_EQ(read(0, 40),
            "abcd000000000000"
            "0000000000000000"
            "wxyz????");
  EXPECT_EQ(read(16, 16), std::string(16, '?')) << "a missing chunk at the end is not touched";
}

TEST_F(DataFileTest, ALengthGrownThroughRingsShowsWhenSettled) {
  EXPECT_EQ(write(0, "abcd", false), 4);
  EXPECT_EQ(file.length(true), 0u);
  EXPECT_EQ(file.length(false), 4u);
  file.settle();
  EXPECT_EQ(file.length(true), 4u);
  EXPECT_EQ(write(4, "ef", true), 2);
  EXPECT_EQ(file.length(true), 6u) << "through the kernel it shows at once";
}

TEST_F(DataFileTest, ALongerFileIsAllHoleButItsLastChunk) {
  EXPECT_EQ(file.truncate(40), 0);
  EXPECT_EQ(file.length(true), 40u);
  EXPECT_EQ(read(0, 40), std::string(32, '0') + "00000000");
  EXPECT_EQ(read(0, 32), std::string(32, '?'));
  EXPECT_EQ(file.truncate(10), 0);
  EXPECT_EQ(file.length(true), 10u);
  EXPECT_EQ(file.stored_bytes(), 0u);
}

TEST_F(DataFileTest, PunchTakesWholeChunksOnlyAndKeepsTheLength) {
  store(0, std::string(48, 'x'));
  EXPECT_EQ(file.punch(8, 32), -EINVAL);
  EXPECT_EQ(file.punch(16, 24), -EINVAL);
  EXPECT_EQ(file.punch(32, 16), -EINVAL);
  EXPECT_EQ(file.punch(32, 48), 0);
  EXPECT_EQ(file.length(true), 48u);
  EXPECT_EQ(file.stored_bytes(), 32u);
  EXPECT_EQ(read(16, 32), std::string(16, 'x') + std::string(16, '?'));
}

TEST_F(DataFileTest, CollectedChunksMakeReadsShortAndKeepTheLength) {
  store(0, std::string(20, 'x'));
  file.collect();
  EXPECT_EQ(file.length(true), 20u);
  EXPECT_EQ(file.pieces(0, 20)[0].got, 0u);
  EXPECT_EQ(faults.space().used(), 0u);
}

TEST_F(DataFileTest, FullSpaceAndQuotaRefuseOnlyWhatGrows) {
  ASSERT_TRUE(faults.set("space.bytes", "20").ok());
  EXPECT_EQ(write(0, std::string(16, 'x'), true), 16);
  EXPECT_EQ(write(16, std::string(5, 'x'), true), -ENOSPC);
  EXPECT_EQ(write(0, std::string(16, 'y'), true), 16) << "overwriting takes no more space";
  ASSERT_TRUE(faults.set("quota.bytes", "17").ok());
  EXPECT_EQ(write(16, "ab", true), -EDQUOT);
  EXPECT_EQ(write(16, "a", true), 1);
  EXPECT_EQ(faults.space().used(), 17u);
  EXPECT_EQ(file.truncate(0), 0);
  EXPECT_EQ(faults.space().used(), 0u);
}

TEST_F(DataFileTest, ThroughTheKernelHolesAreZerosUpToTheLength) {
  store(20, "ab");
  std::vector<std::byte> into(40, static_cast<std::byte>('?'));
  EXPECT_EQ(file.read_plain(0, into), 22);
  EXPECT_EQ(into[0], std::byte{0});
  EXPECT_EQ(into[21], static_cast<std::byte>('b'));
  EXPECT_EQ(file.read_plain(22, into), 0);
}

// Cut behind the back of who took the pieces: what the storage gives is what counts.
TEST_F(DataFileTest, AReadThatRacesWithACutIsShort) {
  store(0, "abcdefgh");
  auto pieces = file.pieces(0, 8);
  EXPECT_EQ(file.truncate(4), 0);
  std::vector<std::byte> into(8);
  EXPECT_EQ(file.move(0, into, pieces), 0);
  EXPECT_EQ(pieces[0].got, 4u);
}

}  // namespace
}  // namespace kvsidecar::fake3fs
