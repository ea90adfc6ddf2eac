// SPDX-License-Identifier: Apache-2.0
// Goal: a trace file is read exactly or refused with line, field and remedy.
// Method: lines and small files, good and bad, against parse_trace_line and read_trace.
#include "clients/cli/trace/trace.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace kvsidecar {
namespace {

constexpr const char* kGood =
    R"({"timestamp": 3000, "input_length": 1000, "output_length": 5, "hash_ids": [0, 7]})";

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text) {
    char name[] = "/tmp/kvsidecar-trace-XXXXXX";
    const int fd = mkstemp(name);
    EXPECT_GE(fd, 0);
    close(fd);
    path_ = name;
    std::ofstream(path_) << text;
  }
  ~TemporaryFile() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void expect_refused(const std::string& line, const std::string& field) {
  const auto request = parse_trace_line(line, 12);
  ASSERT_FALSE(request.ok()) << line;
  EXPECT_EQ(request.status().code(), Code::kInvalid);
  EXPECT_NE(request.status().text().find("line 12"), std::string::npos) << request.status().text();
  EXPECT_NE(request.status().text().find(field), std::string::npos) << request.status().text();
}

TEST(Trace, ALineGivesItsFields) {
  const auto request = parse_trace_line(kGood, 1);
  ASSERT_TRUE(request.ok()) << request.status().text();
  EXPECT_EQ(request->timestamp_ms, 3000u);
  EXPECT_EQ(request->input_tokens, 1000u);
  EXPECT_EQ(request->output_tokens, 5u);
  EXPECT_EQ(request->pages, (std::vector<uint64_t>{0, 7}));
}

TEST(Trace, ABadLineIsRefusedByLineAndField) {
  expect_refused("no json", "JSON object");
  expect_refused("[1, 2]", "JSON object");
  expect_refused(R"({"input_length": 1, "output_length": 1, "hash_ids": [1]})", "'timestamp'");
  expect_refused(R"({"timestamp": -1, "input_length": 1, "output_length": 1, "hash_ids": [1]})",
                 "'timestamp' is -1");
  expect_refused(R"({"timestamp": 1, "input_length": "x", "output_length": 1, "hash_ids": [1]})",
                 "'input_length' is \"x\"");
  expect_refused(
      R"({"timestamp": 1, "input_length": 1, "output_length": 4294967296, "hash_ids": [1]})",
      "'output_length'");
  expect_refused(R"({"timestamp": 1, "input_length": 1, "output_length": 1})", "'hash_ids'");
  expect_refused(R"({"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": []})",
                 "'hash_ids' is []");
  expect_refused(R"({"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": [1.5]})",
                 "holds 1.5");
}

TEST(Trace, ATooLongPromptIsRefused) {
  std::string line = R"({"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": [0)";
  for (size_t i = 0; i < kTracePagesMax; ++i) line += ",1";
  expect_refused(line + "]}", "'hash_ids'");
}

TEST(Trace, AFileIsReadUpToTheLimitAndEmptyLinesAreSkipped) {
  const TemporaryFile file(std::string(kGood) + "\n\n  \n" + kGood + "\n" + kGood + "\n");
  const auto all = read_trace(file.path(), 0);
  ASSERT_TRUE(all.ok()) << all.status().text();
  EXPECT_EQ(all->requests.size(), 3u);
  EXPECT_EQ(pages_of(*all).size(), 3u);
  const auto two = read_trace(file.path(), 2);
  ASSERT_TRUE(two.ok());
  EXPECT_EQ(two->requests.size(), 2u);
}

TEST(Trace, ABadFileIsRefusedByPathAndLine) {
  const TemporaryFile file(std::string(kGood) + "\n{}\n");
  const auto bad = read_trace(file.path(), 0);
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(bad.status().text().find(file.path() + "', line 2"), std::string::npos)
      << bad.status().text();
  EXPECT_FALSE(read_trace(file.path() + ".absent", 0).ok());
  const TemporaryFile empty("\n");
  EXPECT_FALSE(read_trace(empty.path(), 0).ok());
}

}  // namespace
}  // namespace kvsidecar
