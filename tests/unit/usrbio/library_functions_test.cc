// SPDX-License-Identifier: Apache-2.0
// Goal: the right library is loaded and a wrong one is named, with what it lacks. Method: small
// libraries of the test's own, each loaded in a process of its own where loading changes it.
#include "sidecar/store/usrbio/library_functions.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <filesystem>

#include "sidecar/store/usrbio/client.h"

namespace kvsidecar::usrbio {
namespace {

const std::string kWhole = FAKE_WHOLE;
const std::string kWithoutSubmit = FAKE_WITHOUT_SUBMIT;

TEST(LibraryFunctionsTest, AFileOrItsFolderIsLoaded) {
  for (const std::string& named : {kWhole, std::filesystem::path(kWhole).parent_path().string()}) {
    const auto functions = load_library(named);
    ASSERT_TRUE(functions.ok()) << functions.status().text();
    EXPECT_TRUE(std::filesystem::equivalent(functions->path, kWhole));
    EXPECT_FALSE(functions->is_hf3fs(0));
  }
}

TEST(LibraryFunctionsTest, AMissingFunctionIsNamed) {
  const auto functions = load_library(kWithoutSubmit);
  EXPECT_EQ(functions.status().code(), Code::kInvalid);
  EXPECT_NE(functions.status().text().find("hf3fs_submit_ios"), std::string::npos);
  EXPECT_NE(functions.status().text().find(kWithoutSubmit), std::string::npos);
}

TEST(LibraryFunctionsTest, WhatIsNotThereOrNoLibraryIsASentence) {
  for (const std::string& named : {std::string("/nowhere/libhf3fs_api_shared.so"),
                                   std::string("/proc"), std::string("/proc/self/status")}) {
    const auto functions = load_library(named);
    EXPECT_EQ(functions.status().code(), Code::kUnavailable) << named;
    EXPECT_NE(functions.status().text().find("builtin"), std::string::npos);
  }
}

TEST(LibraryFunctionsTest, ALoaderThatFindsNoneIsASentence) {
  const auto functions = load_library("");
  if (functions.ok()) GTEST_SKIP() << "this machine has " << functions->path;
  EXPECT_EQ(functions.status().code(), Code::kUnavailable);
  EXPECT_NE(functions.status().text().find("libhf3fs_api_shared.so"), std::string::npos);
}

TEST(LibraryFunctionsTest, APathOffThreeFsIsASentence) {
  const auto client = open_library("/proc/self", kWhole);
  EXPECT_EQ(client.status().code(), Code::kInvalid);
  EXPECT_NE(client.status().text().find("/proc/self doesn't lie on 3FS"), std::string::npos);
}

// Ends with 0 if the condition holds; for changes that can't be taken back.
[[noreturn]] void end_with(bool condition) { ::_exit(condition ? 0 : 1); }

TEST(LibraryFunctionsTest, AHigherLimitOfOpenFilesIsLoweredAndSaidSo) {
  rlimit now{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &now), 0);
  EXPECT_EXIT(
      {
        const std::string note = lower_open_files_limit(64);
        rlimit limit{};
        ::getrlimit(RLIMIT_NOFILE, &limit);
        end_with(limit.rlim_max == 64 && limit.rlim_cur <= 64 &&
                 note.find("from " + std::to_string(now.rlim_max) + " to 64") != std::string::npos);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(LibraryFunctionsTest, ALowerLimitOfOpenFilesStays) {
  EXPECT_EXIT(
      {
        rlimit low{};
        low.rlim_cur = low.rlim_max = 32;
        ::setrlimit(RLIMIT_NOFILE, &low);
        const std::string note = lower_open_files_limit(64);
        rlimit limit{};
        ::getrlimit(RLIMIT_NOFILE, &limit);
        end_with(limit.rlim_max == 32 && note.empty());
      },
      ::testing::ExitedWithCode(0), "");
}

// usrbio.md §11.10
TEST(LibraryFunctionsTest, TheLibrarysLogVariableIsClearedAndSaidSo) {
  ::setenv("HF3FS_USRBIO_LIB_LOG", "nonsense", 1);
  const auto functions = load_library(kWhole);
  ASSERT_TRUE(functions.ok());
  EXPECT_EQ(::getenv("HF3FS_USRBIO_LIB_LOG"), nullptr);
  EXPECT_NE(functions->notes.find("HF3FS_USRBIO_LIB_LOG was cleared"), std::string::npos);
  EXPECT_EQ(load_library(kWhole)->notes.find("HF3FS_USRBIO_LIB_LOG"), std::string::npos);
}

TEST(LibraryFunctionsTest, WhatACallThrowsEndsThere) {
  EXPECT_EQ(guarded(-7, []() -> int { throw 5; }), -7);
  EXPECT_EQ(guarded(-7, [] { return 3; }), 3);
}

}  // namespace
}  // namespace kvsidecar::usrbio
