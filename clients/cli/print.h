// SPDX-License-Identifier: Apache-2.0
// How the commands write numbers, tables and failures. Pure but for fail(); any thread.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "clients/cli/asker.h"

namespace kvsidecar {

std::string bytes_text(uint64_t bytes);    // "1.5 GiB"
std::string count_text(uint64_t count);    // "1,234,567"
std::string rate_text(double per_second);  // "1.2 k/s"
std::string percent_text(double share);    // 0.5: "50.0 %"

// Rows of cells, padded to columns; the first row is the head. Cells that are numbers stand right.
class Columns {
 public:
  explicit Columns(std::vector<std::string> head) : rows_{std::move(head)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// "name" padded, then the value: one line of a status.
std::string line_text(const std::string& name, const std::string& value);

inline constexpr int kExitFailed = 1, kExitUsage = 2;
// Says why a command failed: a sentence on stderr, with --json also an object on stdout. Gives the
// exit code: 2 for wrong arguments, else 1.
int fail(const Target& target, const std::string& command, const Status& status);

}  // namespace kvsidecar
