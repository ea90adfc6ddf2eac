// SPDX-License-Identifier: Apache-2.0
// Goal: every status has a name of its own, and an operating system's error reads as a sentence.
// Method: all 24 values and one beyond; errors by number.
#include "ipc/status.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <set>

#include "ipc/result.h"

namespace kvsidecar {
namespace {

TEST(Status, EveryCodeHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (uint8_t i = 0; i < kCodesMax; ++i) names.insert(code_name(static_cast<Code>(i)));
  EXPECT_EQ(names.size(), kCodesMax);
  EXPECT_EQ(names.count("?"), 0u);
  EXPECT_EQ(code_name(Code::kOk), "OK");
  EXPECT_EQ(code_name(Code::kStaleNamespace), "STALE_NAMESPACE");
}

TEST(Status, AnUnknownCodeIsAQuestionMark) {
  EXPECT_EQ(code_name(static_cast<Code>(kCodesMax)), "?");
  EXPECT_EQ(code_name(static_cast<Code>(255)), "?");
}

TEST(Status, AnOsErrorSaysWhatAndWhy) {
  const Status status = os_error("open of x", ENOENT);
  EXPECT_EQ(status.text(), "open of x: No such file or directory");
  EXPECT_EQ(status.code(), Code::kInternal);
  EXPECT_EQ(os_error("y", 99999, Code::kBusy).text(), "y: error 99999");
  EXPECT_EQ(os_error("y", EAGAIN, Code::kBusy).code(), Code::kBusy);
}

TEST(Result, HoldsAValueOrAStatus) {
  Result<std::string> good = std::string("value");
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(good.take(), "value");
  const Result<std::string> bad = invalid("field x is 3; use 4");
  EXPECT_FALSE(bad.ok());
  EXPECT_EQ(bad.status().code(), Code::kInvalid);
}

}  // namespace
}  // namespace kvsidecar
