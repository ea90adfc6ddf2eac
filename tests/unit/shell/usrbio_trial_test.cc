// SPDX-License-Identifier: Apache-2.0
// Goal: a client of USRBIO that the daemon died with twice within ten minutes is known as such at
// the next start. Method: trials on one directory; what ends without its destructor has crashed.
#include "sidecar/shell/usrbio_trial.h"

#include <gtest/gtest.h>

#include <fstream>
#include <vector>

#include "tests/unit/shell/temp_dir.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kMinuteMs = 60'000;

class UsrbioTrialTest : public testing::Test {
 protected:
  // A start with that client that ends as a crash does.
  void crash(const std::string& client, uint64_t at_ms) {
    auto* trial = new UsrbioTrial(dir_.path(), at_ms);
    EXPECT_TRUE(trial->begin(client).ok());
    crashed_.push_back(trial);
  }
  bool is_dangerous(const std::string& client, uint64_t at_ms) {
    return UsrbioTrial(dir_.path(), at_ms).is_dangerous(client);
  }
  // Their memory alone: they must not end as they should.
  ~UsrbioTrialTest() override {
    for (UsrbioTrial* trial : crashed_) delete trial;
  }

  TempDir dir_;
  std::vector<UsrbioTrial*> crashed_;
};

TEST_F(UsrbioTrialTest, TwoCrashesWithinTenMinutesMakeAClientDangerous) {
  crash("library", 1);
  EXPECT_FALSE(is_dangerous("library", kMinuteMs));
  crash("library", 2 * kMinuteMs);
  EXPECT_TRUE(is_dangerous("library", 3 * kMinuteMs));
  EXPECT_FALSE(is_dangerous("builtin", 3 * kMinuteMs));
}

TEST_F(UsrbioTrialTest, AfterTenMinutesACrashIsForgotten) {
  crash("library", 1);
  crash("library", 2 * kMinuteMs);
  EXPECT_FALSE(is_dangerous("library", 11 * kMinuteMs));
}

TEST_F(UsrbioTrialTest, ADaemonThatEndsAsItShouldLeavesNoNote) {
  for (uint64_t start = 1; start <= 3; ++start) {
    UsrbioTrial trial(dir_.path(), start);
    ASSERT_TRUE(trial.begin("library").ok());
    EXPECT_FALSE(trial.is_dangerous("library")) << "it runs";
  }
  EXPECT_FALSE(is_dangerous("library", kMinuteMs));
}

TEST_F(UsrbioTrialTest, OneStartThatTriesSeveralClientsLeavesOneNote) {
  for (int start = 0; start < 2; ++start) {
    auto* trial = new UsrbioTrial(dir_.path(), kMinuteMs);
    ASSERT_TRUE(trial->begin("library").ok());
    ASSERT_TRUE(trial->begin("builtin").ok());
    crashed_.push_back(trial);
  }
  EXPECT_TRUE(is_dangerous("builtin", kMinuteMs));
  EXPECT_FALSE(is_dangerous("library", kMinuteMs));
}

TEST_F(UsrbioTrialTest, AFileThatHoldsSomethingElseCountsNothing) {
  for (const char* text :
       {"", "library", "library x\n", "library 18446744073709551615\n", "\x01"}) {
    std::ofstream(dir_ / "usrbio") << text;
    EXPECT_FALSE(is_dangerous("library", kMinuteMs)) << text;
  }
}

TEST_F(UsrbioTrialTest, WhatCantBeNotedIsAnErrorWithTheRemedy) {
  UsrbioTrial trial(dir_ / "nowhere", 1);
  const Status status = trial.begin("library");
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.text().find("daemon.state_dir"), std::string::npos) << status.text();
}

}  // namespace
}  // namespace kvsidecar
