// SPDX-License-Identifier: Apache-2.0
// Goal: a record survives encoding exactly, in the documented bytes, and nothing else decodes.
// Method: a golden vector, every single-byte damage, every truncation, hostile lengths with a
// correct check.
#include "sidecar/page_record.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "ipc/layout.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace kvsidecar {
namespace {

PageRecord sample() {
  PageRecord record;
  record.hash = {0x0807060504030201, 0x100f0e0d0c0b0a09};
  record.namespace_id = {0x1817161514131211, 0x201f1e1d1c1b1a19};
  record.generation = 3;
  record.page_bytes = 4096;
  record.digest = 0xd1d2d3d4d5d6d7d8;
  record.part_digests = {0x1111111111111111, 0x2222222222222222};
  record.key = {std::byte{'k'}, std::byte{'e'}, std::byte{'y'}};
  record.description = {std::byte{0xde}, std::byte{0xad}};
  return record;
}

std::vector<std::byte> encoded(const PageRecord& record) {
  std::vector<std::byte> bytes(record_bytes(record), std::byte{0xff});
  encode_record(record, bytes);
  return bytes;
}

std::string hex(Bytes bytes) {
  std::string text;
  for (const std::byte b : bytes) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned>(b));
    text += digits;
  }
  return text;
}

void expect_equal(const PageRecord& a, const PageRecord& b) {
  EXPECT_EQ(a.hash, b.hash);
  EXPECT_EQ(a.namespace_id, b.namespace_id);
  EXPECT_EQ(a.generation, b.generation);
  EXPECT_EQ(a.page_bytes, b.page_bytes);
  EXPECT_EQ(a.digest, b.digest);
  EXPECT_EQ(a.part_digests, b.part_digests);
  EXPECT_EQ(a.key, b.key);
  EXPECT_EQ(a.description, b.description);
}

// A head of hostile lengths over `bytes` bytes, with a check that is right wherever it should be.
std::vector<std::byte> hostile(uint32_t total, uint32_t key, uint32_t parts, uint32_t description,
                               size_t bytes) {
  std::vector<std::byte> record(bytes);
  const uint32_t lengths[4] = {total, key, parts, description};
  std::memcpy(record.data(), lengths, sizeof lengths);
  const uint64_t page_bytes = 4096;
  std::memcpy(record.data() + 40, &page_bytes, 8);
  if (total >= 8 && total <= bytes) {
    const uint64_t check = XXH3_64bits(record.data(), total - 8);
    std::memcpy(record.data() + total - 8, &check, 8);
  }
  return record;
}

TEST(PageRecord, ComesBackAsItWas) {
  for (const size_t parts : {size_t{1}, size_t{2}, size_t{kPartsMax}}) {
    for (const size_t key : {size_t{1}, size_t{7}, size_t{kKeyBytesMax}}) {
      for (const size_t description : {size_t{0}, size_t{5}, size_t{kDescriptionBytesMax}}) {
        PageRecord record = sample();
        record.part_digests.assign(parts, 0x77);
        record.key.assign(key, std::byte{9});
        record.description.assign(description, std::byte{8});
        const auto bytes = encoded(record);
        EXPECT_EQ(bytes.size() % 8, 0u);
        const auto decoded = decode_record(bytes);
        ASSERT_TRUE(decoded.ok()) << decoded.status().text();
        expect_equal(*decoded, record);
      }
    }
  }
}

TEST(PageRecord, IsEncodedInTheDocumentedBytes) {
  EXPECT_EQ(hex(encoded(sample())),
            "68000000"  // total
            "03000000"
            "02000000"
            "02000000"                          // key, parts, description
            "1112131415161718191a1b1c1d1e1f20"  // namespace id
            "0300000000000000"
            "0010000000000000"                  // generation, page bytes
            "0102030405060708090a0b0c0d0e0f10"  // page hash
            "d8d7d6d5d4d3d2d1"                  // page digest
            "1111111111111111"
            "2222222222222222"  // part digests
            "6b6579"
            "dead"
            "000000"              // key, description, pad
            "747e14daf6f55cc7");  // XXH3-64 of the above
}

TEST(PageRecord, BytesBehindItAreNotItsOwn) {
  auto bytes = encoded(sample());
  bytes.resize(bytes.size() + 100, std::byte{0xee});
  const auto decoded = decode_record(bytes);
  ASSERT_TRUE(decoded.ok());
  expect_equal(*decoded, sample());
}

TEST(PageRecord, AnyChangedByteIsFound) {
  const auto good = encoded(sample());
  for (size_t i = 0; i < good.size(); ++i) {
    for (const std::byte change : {std::byte{1}, std::byte{0x80}, std::byte{0xff}}) {
      auto bad = good;
      bad[i] ^= change;
      EXPECT_EQ(decode_record(bad).status().code(), Code::kCorrupt) << "byte " << i;
    }
  }
}

TEST(PageRecord, AnyTruncationIsFound) {
  const auto good = encoded(sample());
  for (size_t length = 0; length < good.size(); ++length) {
    const std::vector<std::byte> cut(good.begin(), good.begin() + static_cast<ptrdiff_t>(length));
    EXPECT_EQ(decode_record(cut).status().code(), Code::kCorrupt) << length << " bytes";
  }
}

TEST(PageRecord, ZeroBytesAreNoRecord) {
  EXPECT_FALSE(decode_record(std::vector<std::byte>(4096)).ok());
}

TEST(PageRecord, LengthsThatLieAreRefusedThoughTheCheckIsRight) {
  EXPECT_TRUE(decode_record(hostile(96, 8, 1, 0, 96)).ok()) << "the method itself";
  EXPECT_FALSE(decode_record(hostile(96, 0, 2, 0, 96)).ok()) << "no key";
  EXPECT_FALSE(decode_record(hostile(96, 16, 0, 0, 96)).ok()) << "no part";
  EXPECT_FALSE(decode_record(hostile(96, 8, 2, 0, 96)).ok()) << "parts beyond the total";
  EXPECT_FALSE(decode_record(hostile(104, 8, 1, 0, 104)).ok()) << "total beyond the parts";
  EXPECT_FALSE(decode_record(hostile(0, 8, 1, 0, 96)).ok());
  EXPECT_FALSE(decode_record(hostile(~0u, ~0u, ~0u, ~0u, 4096)).ok());
  EXPECT_FALSE(decode_record(hostile(96, 8, 0x20000001u, 0, 96)).ok()) << "parts that overflow";
  EXPECT_FALSE(decode_record(hostile(96, kKeyBytesMax + 1, 1, 0, 4096)).ok());
  EXPECT_FALSE(decode_record(hostile(2048, 8, kPartsMax + 1, 0, 4096)).ok());
}

}  // namespace
}  // namespace kvsidecar
