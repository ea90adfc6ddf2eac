// SPDX-License-Identifier: Apache-2.0
// Goal: what is read from a segment file is what was written, or is refused. Method: round trips,
// then every single byte of superblock and entry changed in turn.
#include "sidecar/store/segment_format.h"

#include <gtest/gtest.h>

#include <cstring>

#include "sidecar/page_record.h"

namespace kvsidecar {
namespace {

Superblock sample(size_t encoded_bytes) {
  Superblock s;
  s.segment = 7ull << 32 | 3;
  s.node = {11, 12};
  s.generation = 4;
  s.page_bytes = 4096;
  s.created_ms = 99;
  s.slot_alignment = 64;
  s.directory_entries = 64;
  s.encoded.assign(encoded_bytes, std::byte{0x5a});
  return s;
}

std::vector<std::byte> encoded(const Superblock& s) {
  std::vector<std::byte> bytes(s.head_bytes());
  encode_superblock(s, bytes);
  return bytes;
}

TEST(SegmentFormat, ASuperblockComesBackAndIsOneBlockForAShortNamespace) {
  const Superblock s = sample(300);
  EXPECT_EQ(s.head_bytes(), kBlockBytes);
  const auto read = decode_superblock(encoded(s));
  ASSERT_TRUE(read.ok()) << read.status().text();
  EXPECT_EQ(read->segment, s.segment);
  EXPECT_EQ(read->node, s.node);
  EXPECT_EQ(read->generation, s.generation);
  EXPECT_EQ(read->page_bytes, s.page_bytes);
  EXPECT_EQ(read->slot_alignment, s.slot_alignment);
  EXPECT_EQ(read->directory_entries, s.directory_entries);
  EXPECT_EQ(read->encoded, s.encoded);
}

TEST(SegmentFormat, TheLongestNamespaceFits) {
  const Superblock s = sample(kIdentityBytesMax);
  EXPECT_LE(s.head_bytes(), kSuperblockBytesMax);
  const auto read = decode_superblock(encoded(s));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->encoded, s.encoded);
}

TEST(SegmentFormat, AnyChangedByteOfASuperblockIsFound) {
  const auto good = encoded(sample(40));
  for (size_t i = 0; i < good.size(); ++i) {
    auto bad = good;
    bad[i] ^= std::byte{1};
    EXPECT_FALSE(decode_superblock(bad).ok()) << "byte " << i;
  }
}

TEST(SegmentFormat, ASuperblockWithAGenerationThatNoClearsReachIsRefused) {
  Superblock s = sample(40);
  s.generation = kGenerationMax;
  EXPECT_TRUE(decode_superblock(encoded(s)).ok());
  s.generation = UINT64_MAX;
  EXPECT_EQ(decode_superblock(encoded(s)).status().code(), Code::kCorrupt);
}

TEST(SegmentFormat, ACutSuperblockIsRefusedAtEveryLength) {
  const auto good = encoded(sample(9000));
  for (size_t length = 0; length < good.size(); length += 511)
    EXPECT_FALSE(decode_superblock(Bytes(good.data(), length)).ok()) << length;
}

TEST(SegmentFormat, AForeignFileIsToldFromADamagedOne) {
  std::vector<std::byte> foreign(kBlockBytes, std::byte{'x'});
  EXPECT_EQ(decode_superblock(foreign).status().code(), Code::kMiss);
  auto damaged = encoded(sample(40));
  damaged[200] ^= std::byte{1};
  EXPECT_EQ(decode_superblock(damaged).status().code(), Code::kCorrupt);
}

std::array<std::byte, kEntryBytes> entry_bytes(const DirectoryEntry& e, uint64_t segment) {
  std::array<std::byte, kEntryBytes> bytes;
  encode_entry(e, segment, bytes);
  return bytes;
}

DirectoryEntry page_entry() {
  DirectoryEntry e;
  e.kind = EntryKind::kPage;
  e.number = 5;
  e.hash = {1, 2};
  e.page_bytes = 3;
  e.digest = 4;
  e.offset = 8192;
  e.trailer_bytes = 200;
  e.written_ms = 6;
  return e;
}

TEST(SegmentFormat, EntriesOfBothKindsComeBack) {
  const DirectoryEntry page = decode_entry(entry_bytes(page_entry(), 77), 77, 5);
  ASSERT_EQ(page.kind, EntryKind::kPage);
  EXPECT_EQ(page.hash, (Hash128{1, 2}));
  EXPECT_EQ(page.page_bytes, 3u);
  EXPECT_EQ(page.digest, 4u);
  EXPECT_EQ(page.offset, 8192u);
  EXPECT_EQ(page.trailer_bytes, 200u);
  DirectoryEntry tombstone;
  tombstone.kind = EntryKind::kTombstone;
  tombstone.number = 6;
  tombstone.segment = 9ull << 32 | 1;
  tombstone.slot = 8;
  const DirectoryEntry read = decode_entry(entry_bytes(tombstone, 77), 77, 6);
  ASSERT_EQ(read.kind, EntryKind::kTombstone);
  EXPECT_EQ(read.segment, tombstone.segment);
  EXPECT_EQ(read.slot, tombstone.slot);
}

TEST(SegmentFormat, AnyChangedByteOfAnEntryMakesItTorn) {
  const auto good = entry_bytes(page_entry(), 77);
  for (size_t i = 0; i < good.size(); ++i) {
    auto bad = good;
    bad[i] ^= std::byte{0x80};
    EXPECT_EQ(decode_entry(bad, 77, 5).kind, EntryKind::kTorn) << "byte " << i;
  }
}

TEST(SegmentFormat, AnEntryElsewhereThanItWasWrittenIsTorn) {
  const auto bytes = entry_bytes(page_entry(), 77);
  EXPECT_EQ(decode_entry(bytes, 78, 5).kind, EntryKind::kTorn);
  EXPECT_EQ(decode_entry(bytes, 77, 4).kind, EntryKind::kTorn);
  const std::array<std::byte, kEntryBytes> zero{};
  EXPECT_EQ(decode_entry(zero, 77, 5).kind, EntryKind::kEmpty);
}

TEST(SegmentFormat, NamesComeBackAndOthersAreNotOurs) {
  const uint64_t segment = 0xabcull << 32 | 0x12;
  EXPECT_EQ(segment_name(segment), "00000abc-00000012.seg");
  EXPECT_EQ(segment_from_name("00000abc-00000012.seg"), segment);
  for (const char* name :
       {"", "x", "00000abc-00000012.se", "00000abc-00000012.segm", "00000ABC-00000012.seg",
        "00000abc_00000012.seg", "00000abg-00000012.seg", "0000abc-000000012.seg"})
    EXPECT_EQ(segment_from_name(name), 0u) << name;
}

TEST(SegmentFormat, ASmallSlotNeverCrossesAStripe) {
  constexpr uint64_t kStripe = 1 << 20;
  for (const uint64_t bytes : {uint64_t{4096}, uint64_t{68 << 10}, uint64_t{128 << 10}}) {
    uint64_t end = 8192;
    for (int i = 0; i < 200; ++i) {
      const uint64_t at = place_slot(end, bytes, 4096, kStripe);
      EXPECT_GE(at, end);
      EXPECT_EQ(at / kStripe, (at + bytes - 1) / kStripe);
      end = at + bytes;
    }
  }
}

TEST(SegmentFormat, StripesCostAtMostAnEighthOfTheSpace) {
  constexpr uint64_t kStripe = 1 << 20;
  for (uint64_t bytes = 4096; bytes <= 3 * kStripe; bytes += 20480) {
    uint64_t end = 0;
    for (int i = 0; i < 300; ++i) end = place_slot(end, bytes, 4096, kStripe) + bytes;
    EXPECT_LE(static_cast<double>(end), 300.0 * static_cast<double>(bytes) * 8 / 7 + 4096) << bytes;
  }
}

TEST(SegmentFormat, ADirectoryIsLargeEnoughAndBounded) {
  EXPECT_EQ(directory_entries_for(1 << 30, 1 << 20, 200) % kEntriesPerBlock, 0u);
  EXPECT_GE(directory_entries_for(1 << 30, 1 << 20, 200), (1u << 30) / ((1 << 20) + 4096));
  EXPECT_EQ(directory_entries_for(1 << 30, 1, 200), kDirectoryEntriesMax);
  EXPECT_EQ(directory_entries_for(4096, 8 << 20, 200), kEntriesPerBlock);
}

}  // namespace
}  // namespace kvsidecar
