// SPDX-License-Identifier: Apache-2.0
// Goal: what the state directory has answered survives a kill at any instruction, and nothing
// damaged is believed. Method: an operation fails at each of its steps in turn, as a kill there
// would leave it; then the directory is opened again.
#include "sidecar/shell/state_dir.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/unit/shell/fake_clock.h"
#include "tests/unit/shell/temp_dir.h"

namespace kvsidecar {
namespace {

class FailAt final : public FaultPoints {
 public:
  int fail(std::string_view point) override { return point == at ? EIO : 0; }
  std::string at;
};

const char* const kSteps[] = {"state.open", "state.write", "state.fsync", "state.rename",
                              "state.fsync_dir"};

class StateDirTest : public testing::Test {
 protected:
  StateDir open() {
    Result<StateDir> opened = StateDir::open(dir_ / "state", clock_, faults_);
    EXPECT_TRUE(opened.ok()) << opened.status().text();
    return opened.take();
  }
  std::vector<StateDir::SavedNamespace> load(size_t& damaged) {
    Result<std::vector<StateDir::SavedNamespace>> all = open().load_namespaces(damaged);
    EXPECT_TRUE(all.ok());
    return all.take();
  }
  TempDir dir_;
  FakeClock clock_;
  FailAt faults_;
  const std::vector<std::byte> encoded_ = std::vector<std::byte>(100, std::byte{7});
  const Hash128 id_ = namespace_id(encoded_);
};

TEST_F(StateDirTest, TheNodeKeepsItsUuid) {
  const auto first = open().node();
  EXPECT_EQ(open().node(), first);
  EXPECT_NE(first, (std::array<std::byte, 16>{}));
}

TEST_F(StateDirTest, TheFirstEpochIsTheSecondOfTheClockSoThatALostDirectoryRepeatsNone) {
  clock_.set_wall_ms(1'800'000'000'000);
  EXPECT_EQ(*open().next_epoch(), 1'800'000'000u);
}

TEST_F(StateDirTest, EpochsGrowEvenWhenTheClockGoesBack) {
  const uint64_t first = *open().next_epoch();
  clock_.set_wall_ms(1000);
  EXPECT_EQ(*open().next_epoch(), first + 1);
  EXPECT_EQ(*open().next_epoch(), first + 2);
}

TEST_F(StateDirTest, AnEpochThatWasNotWrittenIsNotGiven) {
  const uint64_t first = *open().next_epoch();
  for (const char* step : kSteps) {
    faults_.at = step;
    EXPECT_FALSE(open().next_epoch().ok()) << step;
  }
  faults_.at.clear();
  EXPECT_GT(*open().next_epoch(), first);
}

TEST_F(StateDirTest, ANamespaceIsFoundAgainWithItsGeneration) {
  ASSERT_TRUE(open().save_namespace(id_, encoded_, 3).ok());
  size_t damaged = 9;
  const auto all = load(damaged);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].encoded, encoded_);
  EXPECT_EQ(all[0].generation, 3u);
  EXPECT_EQ(damaged, 0u);
}

TEST_F(StateDirTest, AGenerationIsNeverReplacedByALowerOne) {
  StateDir state = open();
  ASSERT_TRUE(state.save_namespace(id_, encoded_, 5).ok());
  ASSERT_TRUE(state.save_namespace(id_, encoded_, 4).ok());
  size_t damaged = 0;
  EXPECT_EQ(state.load_namespaces(damaged)->at(0).generation, 5u);
}

TEST_F(StateDirTest, AKillAtAnyStepLeavesTheOldGenerationOrTheNewOne) {
  ASSERT_TRUE(open().save_namespace(id_, encoded_, 1).ok());
  uint64_t generation = 1;
  for (const char* step : kSteps) {
    faults_.at = step;
    EXPECT_FALSE(open().save_namespace(id_, encoded_, ++generation).ok()) << step;
    faults_.at.clear();
    size_t damaged = 0;
    const auto all = load(damaged);
    ASSERT_EQ(all.size(), 1u) << step;
    EXPECT_EQ(damaged, 0u) << step;
    const bool renamed = std::string(step) == "state.fsync_dir";
    EXPECT_EQ(all[0].generation, renamed ? generation : 1u) << step;
  }
}

TEST_F(StateDirTest, WhatAKillBetweenWriteAndRenameLeftIsRemoved) {
  faults_.at = "state.rename";
  EXPECT_FALSE(open().save_namespace(id_, encoded_, 1).ok());
  const std::string left = dir_ / ("state/namespaces/" + to_hex(id_) + ".tmp");
  ASSERT_TRUE(std::filesystem::exists(left));
  faults_.at.clear();
  open();
  EXPECT_FALSE(std::filesystem::exists(left));
}

TEST_F(StateDirTest, ADamagedFileIsLeftOutAndCounted) {
  ASSERT_TRUE(open().save_namespace(id_, encoded_, 3).ok());
  const std::string file = dir_ / ("state/namespaces/" + to_hex(id_));
  for (const uintmax_t bytes : {uintmax_t{10}, uintmax_t{60}, uintmax_t{0}}) {
    ASSERT_TRUE(open().save_namespace(id_, encoded_, 3).ok());
    std::filesystem::resize_file(file, bytes);
    size_t damaged = 0;
    EXPECT_TRUE(load(damaged).empty());
    EXPECT_EQ(damaged, 1u);
    // It may have been cleared: a lower generation must not take its place.
    EXPECT_EQ(open().save_namespace(id_, encoded_, 1).status().code(), Code::kCorrupt);
    std::filesystem::remove(file);
  }
}

// Counting on from the highest number would begin again at 0, and what was cleared would be back.
TEST_F(StateDirTest, AGenerationThatNoClearsReachIsDamage) {
  StateDir state = open();
  ASSERT_TRUE(state.save_namespace(id_, encoded_, UINT64_MAX).ok());
  size_t damaged = 0;
  EXPECT_TRUE(state.load_namespaces(damaged)->empty());
  EXPECT_EQ(damaged, 1u);
  EXPECT_EQ(state.save_namespace(id_, encoded_, 2).status().code(), Code::kCorrupt);
}

TEST_F(StateDirTest, ANamespaceIsForgottenUnlessItWasCleared) {
  StateDir state = open();
  size_t damaged = 0;
  EXPECT_EQ(*state.save_namespace(id_, encoded_, 1), 1u);
  state.forget_namespace(id_);
  EXPECT_TRUE(state.load_namespaces(damaged)->empty());
  EXPECT_EQ(*state.save_namespace(id_, encoded_, 2), 2u);
  state.forget_namespace(id_);
  EXPECT_EQ(*state.save_namespace(id_, encoded_, 1), 2u);
}

TEST_F(StateDirTest, AFileUnderAnotherNamespacesNameIsNotBelieved) {
  ASSERT_TRUE(open().save_namespace(id_, encoded_, 3).ok());
  std::filesystem::rename(dir_ / ("state/namespaces/" + to_hex(id_)),
                          dir_ / "state/namespaces/00000000000000000000000000000000");
  size_t damaged = 0;
  EXPECT_TRUE(load(damaged).empty());
  EXPECT_EQ(damaged, 1u);
}

TEST_F(StateDirTest, ADamagedEpochStopsTheStartInsteadOfBeginningAgain) {
  ASSERT_TRUE(open().next_epoch().ok());
  std::ofstream(dir_ / "state/epoch") << "garbage";
  const Result<uint64_t> next = open().next_epoch();
  ASSERT_FALSE(next.ok());
  EXPECT_EQ(next.status().code(), Code::kCorrupt);
  EXPECT_NE(next.status().text().find("epoch"), std::string::npos);
}

TEST_F(StateDirTest, ASecondDaemonIsRefused) {
  const StateDir first = open();
  const Result<StateDir> second = StateDir::open(dir_ / "state", clock_, faults_);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), Code::kBusy);
}

}  // namespace
}  // namespace kvsidecar
