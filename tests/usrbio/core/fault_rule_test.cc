// SPDX-License-Identifier: Apache-2.0
// Goal: a fault strikes exactly the times that its text says, and a text that says nothing is
// refused with a sentence. Method: texts.
#include "tests/usrbio/core/fault_rule.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "tests/usrbio/core/faults.h"

namespace kvsidecar::fake3fs {
namespace {

std::string strikes(const std::string& text, int times) {
  auto rule = parse_fault_rule(FaultKind::kErrno, text);
  EXPECT_TRUE(rule.ok()) << rule.status().text();
  std::string struck;
  for (int i = 0; i < times; ++i) struck += rule->strikes() ? 'x' : '.';
  return struck;
}

TEST(FaultRule, StrikesTheTimesItSays) {
  EXPECT_EQ(strikes("EIO", 4), "xxxx");
  EXPECT_EQ(strikes("EIO@3", 5), "..x..");
  EXPECT_EQ(strikes("EIO@3+", 5), "..xxx");
  EXPECT_EQ(strikes("EIO@2-3", 5), ".xx..");
  EXPECT_EQ(strikes("EIO@%2", 6), ".x.x.x");
}

TEST(FaultRule, KnowsErrnosByNameAndNumber) {
  EXPECT_EQ(parse_fault_rule(FaultKind::kErrno, "EREMOTEIO")->value, EREMOTEIO);
  EXPECT_EQ(parse_fault_rule(FaultKind::kErrno, "28")->value, ENOSPC);
  EXPECT_EQ(parse_fault_rule(FaultKind::kStall, "on")->value, 0);
  EXPECT_EQ(parse_fault_rule(FaultKind::kStall, "60000")->value, 60000);
}

TEST(FaultRule, RefusesWhatIsNone) {
  for (const char* text :
       {"", "EWRONG", "0", "-1", "EIO@", "EIO@0", "EIO@x", "EIO@5-3", "EIO@%0", "EIO@3-", "EIO@+"})
    EXPECT_FALSE(parse_fault_rule(FaultKind::kErrno, text).ok()) << text;
  EXPECT_FALSE(parse_fault_rule(FaultKind::kSwitch, "1").ok());
  EXPECT_FALSE(parse_fault_rule(FaultKind::kBytes, "on").ok());
}

TEST(Faults, AnUnknownNameIsRefusedWithTheKnownOnes) {
  Faults faults({"fuse.open"});
  const Status refused = faults.set("read.eror", "EIO");
  EXPECT_EQ(refused.code(), Code::kInvalid);
  EXPECT_NE(refused.text().find("read.error"), std::string::npos);
  EXPECT_TRUE(faults.set("fuse.open", "EMFILE@1").ok());
  EXPECT_EQ(faults.error_at("fuse.open"), EMFILE);
  EXPECT_EQ(faults.error_at("fuse.open"), 0);
}

TEST(Faults, ReadsAndWritesHaveRulesOfTheirOwnAndOffTakesOneAway) {
  Faults faults;
  ASSERT_TRUE(faults.set("read.error", "EIO").ok());
  EXPECT_EQ(faults.on_io(true).error, EIO);
  EXPECT_EQ(faults.on_io(false).error, 0);
  ASSERT_TRUE(faults.set("read.error", "off").ok());
  EXPECT_EQ(faults.on_io(true).error, 0);
}

TEST(Faults, AfterClearAServerIsAsAtItsStart) {
  Faults faults;
  ASSERT_TRUE(faults.set("holes.folded", "off").ok());
  ASSERT_TRUE(faults.set("early.again", "off").ok());
  ASSERT_TRUE(faults.set("space.bytes", "10").ok());
  EXPECT_FALSE(faults.is_on("holes.folded"));
  EXPECT_EQ(faults.current().size(), 3u);
  faults.clear();
  EXPECT_TRUE(faults.is_on("holes.folded"));
  EXPECT_TRUE(faults.looks_again());
  EXPECT_FALSE(faults.looks_at_idle());
  EXPECT_EQ(faults.space().grow(11), 0);
}

TEST(Faults, ChanceIsTheSameFromTheSameSeed) {
  const auto drawn = [](const char* seed) {
    Faults faults;
    EXPECT_TRUE(faults.set("early.random", seed).ok());
    std::string text;
    for (int i = 0; i < 100; ++i) text += faults.looks_at_idle() ? 'x' : '.';
    return text;
  };
  EXPECT_EQ(drawn("5"), drawn("5"));
  EXPECT_NE(drawn("5"), drawn("6"));
  EXPECT_NE(drawn("5").find('x'), std::string::npos);
  EXPECT_NE(drawn("5").find('.'), std::string::npos);
}

}  // namespace
}  // namespace kvsidecar::fake3fs
