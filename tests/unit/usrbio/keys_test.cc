// SPDX-License-Identifier: Apache-2.0
// Goal: names are as the protocol writes them. Method: known ids and terms beside their text.
#include "sidecar/store/usrbio/keys.h"

#include <gtest/gtest.h>

#include <set>

namespace kvsidecar::usrbio {
namespace {

constexpr MemoryId kId = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
                          0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff};
const std::string kText = "00112233-4455-6677-8899-aabbccddeeff";

TEST(KeysTest, AnIdIsWrittenInLowerCaseWithHyphens) {
  EXPECT_EQ(id_text(kId), kText);
  EXPECT_EQ(parse_id(kText), kId);
  EXPECT_EQ(parse_id("00112233-4455-6677-8899-AABBCCDDEEFF"), kId);
}

TEST(KeysTest, WhatIsNoIdIsNotReadAsOne) {
  for (const char* text :
       {"", "00112233-4455-6677-8899-aabbccddeef", "00112233-4455-6677-8899-aabbccddeeff0",
        "001122334-455-6677-8899-aabbccddeeff", "00112233445566778899aabbccddeeff",
        "{0112233-4455-6677-8899-aabbccddeeff", "00112233-4455-6677-8899-aabbccddeefg"})
    EXPECT_FALSE(parse_id(text)) << text;
}

TEST(KeysTest, IdsAreRandomAndOfVersionFour) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    const std::string text = id_text(make_id());
    EXPECT_TRUE(seen.insert(text).second);
    EXPECT_EQ(text[14], '4');
    EXPECT_NE(std::string("89ab").find(text[19]), std::string::npos);
  }
}

TEST(KeysTest, MemoryIsNamedByItsIdAndBlock) {
  EXPECT_EQ(memory_key(kId), kText);
  EXPECT_EQ(memory_key(kId, 4096), kText + ".b4096");
}

TEST(KeysTest, ARingsNameSaysItsTerms) {
  EXPECT_EQ(ring_key(kId, {}), kText + ".r0.t0");
  EXPECT_EQ(ring_key(kId, {.for_read = false, .io_depth = -3}), kText + ".w-3.t0");
  EXPECT_EQ(ring_key(kId, {.io_depth = 4, .timeout_ms = 1, .flags = 1}), kText + ".r4.t1.f1");
  EXPECT_EQ(ring_key(kId, {.timeout_ms = 5, .flags = 2}), kText + ".r0.t5.f10");
  EXPECT_EQ(ring_key(kId, {.for_read = false, .priority = -7}), kText + ".w0.ph.t0");
  EXPECT_EQ(ring_key(kId, {.for_read = false, .priority = 1}), kText + ".w0.pl.t0");
}

}  // namespace
}  // namespace kvsidecar::usrbio
