// SPDX-License-Identifier: Apache-2.0
// Goal: one line per event, fields that a program can read back, and a flood of one cause that is
// cut, counted and told. Method: lines are caught in a sink, time is a fake clock's.
#include "sidecar/shell/log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "sidecar/shell/log_limiter.h"
#include "tests/unit/shell/fake_clock.h"

namespace kvsidecar {
namespace {

std::vector<std::string>& lines() {
  static std::vector<std::string> caught;
  return caught;
}

class Log : public testing::Test {
 protected:
  Log() {
    lines().clear();
    set_log_level(LogLevel::kInfo);
    set_log_sink([](LogLevel, const std::string& line) { lines().push_back(line); }, &clock_);
  }
  ~Log() override { set_log_sink(nullptr, nullptr); }
  FakeClock clock_;
};

TEST_F(Log, AnEventIsOneLineWithItsFields) {
  log_event(LogLevel::kInfo, "session_opened", {{"session", 3}, {"name", "vllm"}, {"share", 0.5}});
  ASSERT_EQ(lines().size(), 1u);
  EXPECT_EQ(lines()[0], "session_opened session=3 name=vllm share=0.500000");
}

TEST_F(Log, AFieldThatCouldBeMisreadIsQuotedAndEscaped) {
  EXPECT_EQ(format_fields({{"a", "two words"}, {"b", "x=y"}, {"c", ""}}),
            "a=\"two words\" b=\"x=y\" c=\"\"");
  EXPECT_EQ(format_fields({{"a", "say \"no\"\n\x1b"}}), "a=\"say \\\"no\\\"\\n\\x1b\"");
}

TEST_F(Log, EventsBelowTheLevelAreNotWritten) {
  log_event(LogLevel::kDebug, "detail");
  EXPECT_TRUE(lines().empty());
  set_log_level(LogLevel::kError);
  log_event(LogLevel::kWarning, "odd");
  log_event(LogLevel::kError, "bad");
  EXPECT_EQ(lines(), std::vector<std::string>{"bad"});
}

TEST_F(Log, AFloodOfOneCauseIsCutAndToldWhenItsWindowHasPassed) {
  for (uint32_t i = 0; i < kLinesPerWindow + 5; ++i) log_event(LogLevel::kInfo, "flood");
  EXPECT_EQ(lines().size(), kLinesPerWindow);
  clock_.advance_ns(kLogWindowNs - 1);
  log_suppressed();
  EXPECT_EQ(lines().size(), kLinesPerWindow);
  clock_.advance_ns(1);
  log_suppressed();
  ASSERT_EQ(lines().size(), kLinesPerWindow + 1);
  EXPECT_EQ(lines().back(), "log_suppressed cause=flood lines=5");
  log_event(LogLevel::kInfo, "flood");
  EXPECT_EQ(lines().back(), "flood");
}

TEST_F(Log, OneCauseDoesNotSilenceAnother) {
  for (uint32_t i = 0; i < 2 * kLinesPerWindow; ++i) log_event(LogLevel::kInfo, "flood");
  log_event(LogLevel::kInfo, "quiet");
  EXPECT_EQ(lines().back(), "quiet");
}

TEST(LogThread, AReaderOfStderrWhoStallsStallsNobodyAndTheLossIsTold) {
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  const int before = ::dup(STDERR_FILENO);
  ::dup2(pipe_ends[1], STDERR_FILENO);
  ::close(pipe_ends[1]);
  start_log_thread();
  const std::string long_text(4096, 'x');
  constexpr size_t kCauses = 250;  // each may log kLinesPerWindow lines: more than the queue holds
  static_assert(kCauses * kLinesPerWindow > kLogQueueLines + 100);
  for (size_t i = 0; i < kCauses * kLinesPerWindow; ++i)
    log_event(LogLevel::kInfo, "cause" + std::to_string(i % kCauses), {{"t", long_text}});
  log_suppressed();
  std::string written;
  std::thread reader([&] {
    char buffer[65536];
    for (ssize_t got; (got = ::read(pipe_ends[0], buffer, sizeof buffer)) > 0;)
      written.append(buffer, static_cast<size_t>(got));
  });
  stop_log_thread();
  ::dup2(before, STDERR_FILENO);  // the pipe's last writer: the reader ends
  ::close(before);
  reader.join();
  ::close(pipe_ends[0]);
  EXPECT_NE(written.find("cause0 t=xxx"), std::string::npos);
  EXPECT_NE(written.find("log_overrun lines="), std::string::npos);
}

TEST(LogLimiter, BeyondTheKnownCausesNewOnesShareOneBudget) {
  LogLimiter limiter;
  for (size_t i = 0; i < kCausesMax; ++i) EXPECT_TRUE(limiter.admit(std::to_string(i), 1));
  for (uint32_t i = 0; i < kLinesPerWindow; ++i)
    EXPECT_TRUE(limiter.admit("new " + std::to_string(i), 1));
  EXPECT_FALSE(limiter.admit("one more", 1));
  uint64_t suppressed = 0;
  limiter.expire(1 + kLogWindowNs, [&](const std::string& cause, uint64_t n) {
    EXPECT_EQ(cause, "other");
    suppressed += n;
  });
  EXPECT_EQ(suppressed, 1u);
}

}  // namespace
}  // namespace kvsidecar
