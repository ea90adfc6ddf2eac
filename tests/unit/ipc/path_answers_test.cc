// SPDX-License-Identifier: Apache-2.0
// Goal: who asks a file system gets its answer. Method: real paths; that nobody waits for one that
// hangs is tested with a stopped FUSE server (tests/process/test_usrbio_start.py).
#include "ipc/path_answers.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace kvsidecar {
namespace {

constexpr uint64_t kLong = 60'000'000'000;

TEST(AskFileSystem, GivesWhatThePathAnswers) {
  EXPECT_EQ(ask_file_system("/", kLong), 0);
  EXPECT_EQ(ask_file_system("/nowhere/at/all", kLong), ENOENT);
  EXPECT_EQ(ask_file_system("/proc/self/status/below", kLong), ENOTDIR);
}

}  // namespace
}  // namespace kvsidecar
