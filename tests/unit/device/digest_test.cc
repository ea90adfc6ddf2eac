// SPDX-License-Identifier: Apache-2.0
// Goal: digests are exactly what digest.h says, on every CPU. Method: golden vectors that were made
// with the reference library by another program, and every variant this CPU has against them and
// against each other, for all the ways in which a leaf can be put together from runs.
#include "sidecar/digest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sidecar/digest_variants/digest_variant.h"

namespace kvsidecar {
namespace {

std::vector<std::byte> pattern(size_t count) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<std::byte>((i * 131 + (i >> 8) * 17 + 7) & 0xff);
  return bytes;
}

std::vector<const DigestVariant*> variants() {
  size_t count = 0;
  const DigestVariant* const* all = supported_digest_variants(count);
  return {all, all + count};
}

struct LeafVector {
  size_t bytes;
  uint64_t digest;
};
constexpr LeafVector kLeaves[] = {
    {0, 0x2d06800538d394c2},     {1, 0x4c5cca45d0f4811f},     {3, 0x6e3e2670e61106ac},
    {16, 0x86abf6baccea0858},    {64, 0x1291d2d4042330dd},    {128, 0x10d17f72c0ccba41},
    {240, 0xb6cfaf343fab81e6},   {241, 0x956cae592c67279e},   {512, 0x31cc4c8456761b50},
    {1024, 0xa1e16f2edf2cbed6},  {1025, 0x0a6d2c17259fe4bb},  {4096, 0x48aa0572119e973a},
    {65535, 0x019823aae3634e96}, {65536, 0x7402b5216cd59665},
};

struct PartVector {
  size_t bytes;
  uint64_t seed, digest;
};
constexpr PartVector kParts[] = {
    {0, 0, 0xc77b3abb6f87acd9},
    {1, 0, 0x7137b61b5dbcf889},
    {4096, 1, 0xe635bc9e0443fd9e},
    {65536, 0x0123456789abcdef, 0x55cb64af4db8fba6},
    {65537, 0x0123456789abcdef, 0xc0206099c76749da},
    {1048576, 0, 0xa29cfdd675c92afd},
    {1048576 + 123, 42, 0xfe73ecdfd6abc392},
    {40 * 1048576, 7, 0x2146570a7088b988},
};

TEST(Digest, LeavesHaveTheirGoldenDigests) {
  for (const LeafVector& v : kLeaves) {
    const std::vector<std::byte> bytes = pattern(v.bytes);
    EXPECT_EQ(leaf_digest(bytes.data(), bytes.size()), v.digest) << v.bytes;
  }
}

TEST(Digest, PartsHaveTheirGoldenDigests) {
  for (const PartVector& v : kParts) {
    const std::vector<std::byte> bytes = pattern(v.bytes);
    EXPECT_EQ(part_digest(bytes, v.seed), v.digest) << v.bytes;
  }
}

TEST(Digest, PagesHaveTheirGoldenDigests) {
  EXPECT_EQ(page_digest(std::vector<uint64_t>{1}), 0x2fbc593564db792eu);
  EXPECT_EQ(page_digest(std::vector<uint64_t>{1, 2, 3}), 0x7c68b4906e7ea780u);
  EXPECT_EQ(page_digest(std::vector<uint64_t>(8, ~uint64_t{0})), 0x7992ee0288330c4fu);
  std::vector<uint64_t> many(600);
  for (size_t i = 0; i < many.size(); ++i) many[i] = i;
  EXPECT_EQ(page_digest(many), 0x13d1827ae725788eu);
}

TEST(Digest, APartOfItsLeavesIsTheSameAsThePartAtOnce) {
  const std::vector<std::byte> bytes = pattern(5 * kLeafBytes + 100);
  std::vector<uint64_t> leaves;
  for (size_t at = 0; at < bytes.size(); at += kLeafBytes)
    leaves.push_back(leaf_digest(&bytes[at], std::min<size_t>(kLeafBytes, bytes.size() - at)));
  EXPECT_EQ(leaves.size(), leaf_count(bytes.size()));
  EXPECT_EQ(part_digest(bytes.size(), leaves, 3), part_digest(bytes, 3));
}

TEST(Digest, AZeroedAShortenedOrAReorderedPartHasAnotherDigest) {
  std::vector<std::byte> bytes = pattern(3 * kLeafBytes);
  bytes[5] = std::byte{0};  // or the first two leaves are the same
  const uint64_t right = part_digest(bytes, 1);
  EXPECT_NE(part_digest(bytes, 2), right);
  EXPECT_NE(part_digest(Bytes(bytes).first(bytes.size() - 1), 1), right);
  std::swap_ranges(bytes.begin(), bytes.begin() + kLeafBytes, bytes.begin() + kLeafBytes);
  EXPECT_NE(part_digest(bytes, 1), right);
  EXPECT_NE(part_digest(std::vector<std::byte>(bytes.size()), 1), right);
}

TEST(DigestVariants, EachHashesTheGoldenLeaves) {
  for (const DigestVariant* variant : variants())
    for (const LeafVector& v : kLeaves) {
      const std::vector<std::byte> bytes = pattern(v.bytes);
      EXPECT_EQ(variant->hash(bytes.data(), v.bytes, 0), v.digest) << variant->name << v.bytes;
    }
}

TEST(DigestVariants, AllAgreeOnSeededHashes) {
  const std::vector<std::byte> bytes = pattern(5000);
  for (const size_t count : {8u, 100u, 240u, 241u, 1024u, 5000u}) {
    const uint64_t expected = kDigestBaseline.hash(bytes.data(), count, 0xfeed);
    for (const DigestVariant* variant : variants())
      EXPECT_EQ(variant->hash(bytes.data(), count, 0xfeed), expected) << variant->name << count;
  }
}

// Copies `bytes` from runs of `run` bytes, each in a buffer of its own, to `shift` bytes past an
// aligned address.
void expect_joined(const DigestVariant& variant, size_t bytes, size_t run, size_t shift) {
  const std::vector<std::byte> whole = pattern(bytes);
  std::vector<std::vector<std::byte>> runs;
  std::vector<CopySource> sources;
  for (size_t at = 0; at < bytes; at += run) {
    const size_t count = std::min(run, bytes - at);
    runs.emplace_back(whole.begin() + static_cast<long>(at),
                      whole.begin() + static_cast<long>(at + count));
    sources.push_back({runs.back().data(), count});
  }
  std::vector<std::byte> room(bytes + 64 + 192, std::byte{0xee});
  const size_t start = 64 + shift + (64 - reinterpret_cast<uintptr_t>(room.data()) % 64);
  std::byte* const to = room.data() + start;
  const uint64_t digest = variant.copy_leaf(to, sources.data(), sources.size(), bytes);
  publish_copies();
  const std::string where = std::string(variant.name) + " bytes " + std::to_string(bytes) +
                            " run " + std::to_string(run) + " shift " + std::to_string(shift);
  EXPECT_EQ(digest, kDigestBaseline.hash(whole.data(), bytes, 0)) << where;
  EXPECT_TRUE(std::equal(whole.begin(), whole.end(), to)) << where;
  EXPECT_EQ(to[-1], std::byte{0xee}) << where;
  EXPECT_EQ(to[bytes], std::byte{0xee}) << where;
}

TEST(DigestVariants, ALeafIsCopiedAndHashedFromRunsOfAnyLength) {
  for (const DigestVariant* variant : variants())
    for (const size_t bytes : {1u, 63u, 240u, 241u, 1023u, 1024u, 1025u, 2047u, 2048u, 2049u, 4095u,
                               16384u, 65535u, 65536u})
      for (const size_t run : {100u, 512u, 1024u, 3072u, 4096u, 16384u, 16400u, 65536u})
        for (const size_t shift : {0u, 8u}) expect_joined(*variant, bytes, run, shift);
}

TEST(DigestVariants, CopiesPastTheCacheAreExactAtAnyAlignment) {
  const std::vector<std::byte> from = pattern(9000);
  for (const DigestVariant* variant : variants())
    for (const size_t bytes : {0u, 1u, 63u, 64u, 65u, 127u, 1024u, 8191u})
      for (const size_t shift : {0u, 1u, 17u, 63u}) {
        std::vector<std::byte> to(9000, std::byte{0xee});
        variant->copy_past_cache(&to[shift], &from[shift / 2], bytes);
        publish_copies();
        EXPECT_TRUE(std::equal(&to[shift], &to[shift] + bytes, &from[shift / 2]));
        EXPECT_EQ(to[shift + bytes], std::byte{0xee});
        if (shift > 0) {
          EXPECT_EQ(to[shift - 1], std::byte{0xee});
        }
      }
}

TEST(DigestVariants, TheOneInUseIsNamed) {
  EXPECT_EQ(digest_variant(), digest_variant_in_use().name);
  EXPECT_EQ(variants().back(), &digest_variant_in_use());
}

}  // namespace
}  // namespace kvsidecar
