// SPDX-License-Identifier: Apache-2.0
// Goal: a symlink's name is read as the real daemon reads it. Method: names from the facts.
#include "tests/usrbio/mini3fs/key.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

namespace kvsidecar::fake3fs {
namespace {

const std::string kUuid = "00112233-4455-6677-8899-aabbccddeeff";

int parsed(const std::string& parts, Key& key) {
  key = {};
  return parse_key(kUuid + parts, key);
}

TEST(Key, IsAnIovWithOrWithoutBlocks) {
  Key key;
  ASSERT_EQ(parsed("", key), 0);
  EXPECT_FALSE(key.ring.has_value());
  EXPECT_EQ(key.block_bytes, 0u);
  EXPECT_EQ(key.id[0], 0x00);
  EXPECT_EQ(key.id[5], 0x55);
  EXPECT_EQ(key.id[15], 0xff);
  ASSERT_EQ(parsed(".b4096", key), 0);
  EXPECT_EQ(key.block_bytes, 4096u);
}

TEST(Key, IsARingWithAllItSays) {
  Key key;
  ASSERT_EQ(parsed(".r-3.t0", key), 0);
  EXPECT_TRUE(key.ring->for_read);
  EXPECT_EQ(key.ring->io_depth, -3);
  EXPECT_EQ(key.ring->priority, Priority::kNormal);
  ASSERT_EQ(parsed(".w4.ph.t7.f10", key), 0);
  EXPECT_FALSE(key.ring->for_read);
  EXPECT_EQ(key.ring->io_depth, 4);
  EXPECT_EQ(key.ring->priority, Priority::kHigh);
  EXPECT_EQ(key.ring->timeout_ms, 7u);
  EXPECT_EQ(key.ring->flags, 2u) << "written in binary";
  ASSERT_EQ(parsed(".w0.pl.t0", key), 0);
  EXPECT_EQ(key.ring->priority, Priority::kLow);
  ASSERT_EQ(parsed(".r0.pn.t0", key), 0);
  EXPECT_EQ(key.ring->priority, Priority::kNormal);
}

TEST(Key, UnknownLettersSayNothingAndTheLastDirectionHolds) {
  Key key;
  EXPECT_EQ(parsed(".x1", key), 0);
  EXPECT_EQ(parsed(".gdr.d0", key), 0);
  EXPECT_EQ(parsed(".", key), 0);
  ASSERT_EQ(parsed(".r1.w2.t0", key), 0);
  EXPECT_FALSE(key.ring->for_read);
  EXPECT_EQ(key.ring->io_depth, 2);
}

TEST(Key, UpperCaseIsTheSameUuidAndOtherFormsAreNone) {
  Key upper, lower;
  ASSERT_EQ(parse_key("00112233-4455-6677-8899-AABBCCDDEEFF", upper), 0);
  ASSERT_EQ(parse_key(kUuid, lower), 0);
  EXPECT_EQ(upper.id, lower.id);
  for (const char* text :
       {"", "x", "{00112233-4455-6677-8899-aabbccddeeff}", "00112233445566778899aabbccddeeff",
        ".r0.t0", "00112233-4455-6677-8899-aabbccddeefg", "00112233-4455-6677-8899-aabbccddeef "})
    EXPECT_EQ(parse_key(text, lower), -EIO) << text;
}

TEST(Key, WhatMakesNoSenseIsInvalid) {
  Key key;
  for (const char* parts : {".b", ".b0", ".bx", ".r", ".r0x.t0", ".r0.t-1", ".r0.t", ".r0.f2",
                            ".r0.px.t0", ".t0", ".ph", ".f1", ".r0"})
    EXPECT_EQ(parsed(parts, key), -EINVAL) << parts;
}

}  // namespace
}  // namespace kvsidecar::fake3fs
