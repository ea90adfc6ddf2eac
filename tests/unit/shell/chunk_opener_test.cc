// SPDX-License-Identifier: Apache-2.0
// Goal: chunks come in one after the other, those of an earlier daemon are adopted, one that can't
// be had is tried again, and files of a living daemon are left alone. Method: small chunks in a
// directory of the test's own; the test turns the reaper and tells the time.
#include "sidecar/shell/chunk_opener.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <filesystem>
#include <functional>

#include "sidecar/shell/log.h"
#include "tests/unit/shell/fake_clock.h"
#include "tests/unit/shell/temp_dir.h"

namespace kvsidecar {
namespace {

class Failing final : public FaultPoints {
 public:
  int fail(std::string_view point) override {
    if (point == "chunk.reserve" && on_reserve) on_reserve();
    return point.substr(0, 6) == "chunk." ? error : 0;
  }
  int error = 0;
  std::function<void()> on_reserve;
};

class ChunkOpenerTest : public testing::Test {
 protected:
  ChunkOpenerTest() : reaper_(4, nullptr) {
    set_log_sink([](LogLevel, const std::string&) {}, nullptr);
    plan_.directory = dir_.path();
    plan_.pool = "test";
    plan_.chunk_bytes = 256 * 1024;
    plan_.pool_bytes = 3 * plan_.chunk_bytes;
  }
  ~ChunkOpenerTest() override {
    for (const auto& memory : ready_) ::munmap(memory.data(), memory.size());
    set_log_sink(nullptr, nullptr);
  }
  std::unique_ptr<ChunkOpener> make() {
    return std::make_unique<ChunkOpener>(plan_, reaper_, clock_, faults_,
                                         [this](const Chunk& chunk) {
                                           ready_.push_back(chunk.memory);
                                           adopted_ += chunk.existed ? 1 : 0;
                                         });
  }
  void settle(ChunkOpener& opener) {
    for (bool busy = true; busy;) {
      busy = opener.step();
      busy = reaper_.step() || busy;
    }
  }
  TempDir dir_;
  ChunkPlan plan_;
  FakeClock clock_;
  Failing faults_;
  Reaper reaper_;
  std::vector<std::span<std::byte>> ready_;
  int adopted_ = 0;
};

TEST_F(ChunkOpenerTest, AllChunksOfThePlanComeIn) {
  const auto opener = make();
  EXPECT_EQ(opener->planned(), 3u);
  settle(*opener);
  EXPECT_TRUE(opener->done() && opener->idle());
  ASSERT_EQ(ready_.size(), 3u);
  EXPECT_EQ(ready_[2].size(), plan_.chunk_bytes);
  EXPECT_EQ(adopted_, 0);
}

TEST_F(ChunkOpenerTest, TheChunksOfAnEarlierDaemonAreAdopted) {
  settle(*make());
  settle(*make());
  EXPECT_EQ(ready_.size(), 6u);
  EXPECT_EQ(adopted_, 3);
}

TEST_F(ChunkOpenerTest, AChunkThatCannotBeHadIsTriedAgainLater) {
  faults_.error = ENOSPC;
  const auto opener = make();
  settle(*opener);
  EXPECT_EQ(opener->opened(), 0u);
  faults_.error = 0;
  settle(*opener);
  EXPECT_EQ(opener->opened(), 0u) << "too early";
  clock_.advance_ns(1'000'000'000);
  settle(*opener);
  EXPECT_TRUE(opener->done());
}

TEST_F(ChunkOpenerTest, WhyAChunkCannotBeHadIsSaidOnceNotAtEveryTry) {
  static std::vector<std::string> said;
  set_log_sink([](LogLevel, const std::string& line) { said.push_back(line); }, nullptr);
  faults_.error = ENOSPC;
  const auto opener = make();
  for (int i = 0; i < 5; ++i) {
    settle(*opener);
    clock_.advance_ns(1'000'000'000);
  }
  EXPECT_EQ(said.size(), 1u);
  faults_.error = EIO;  // something else
  settle(*opener);
  EXPECT_EQ(said.size(), 2u);
}

// A daemon that is told to end while a big pool is still being reserved ends then, not when the
// pool is in.
TEST_F(ChunkOpenerTest, AStopGivesUpTheChunkThatIsBeingReservedAndStartsNoOther) {
  plan_.chunk_bytes = 160ull << 20;  // three steps
  plan_.pool_bytes = 2 * plan_.chunk_bytes;
  set_log_sink([](LogLevel, const std::string& line) { ADD_FAILURE() << line; }, nullptr);
  const auto opener = make();
  int steps = 0;
  faults_.on_reserve = [&] {
    ++steps;
    opener->stop();
  };
  settle(*opener);
  EXPECT_EQ(steps, 1);
  EXPECT_TRUE(opener->idle());
  EXPECT_EQ(opener->opened(), 0u);
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path())) << "a half-made file was left";
}

TEST_F(ChunkOpenerTest, AStopKeepsTheChunksThatAreIn) {
  const auto opener = make();
  faults_.on_reserve = [&] {
    if (opener->opened() == 2) opener->stop();
  };
  settle(*opener);
  EXPECT_TRUE(opener->idle());
  EXPECT_GE(opener->opened(), 2u);
  EXPECT_EQ(ready_.size(), opener->opened());
}

TEST_F(ChunkOpenerTest, TheChunksOfALivingDaemonAreLeftAlone) {
  const auto first = make();
  settle(*first);
  const auto second = make();
  settle(*second);
  EXPECT_EQ(second->opened(), 0u);
  EXPECT_EQ(ready_.size(), 3u);
}

}  // namespace
}  // namespace kvsidecar
