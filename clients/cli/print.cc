// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/print.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace kvsidecar {
namespace {

constexpr size_t kNameColumns = 22;

std::string scaled(double value, double step, const char* const units[], size_t unit_count,
                   int digits) {
  size_t unit = 0;
  while (value >= step && unit + 1 < unit_count) {
    value /= step;
    ++unit;
  }
  char text[64];
  std::snprintf(text, sizeof text, "%.*f %s", unit == 0 ? 0 : digits, value, units[unit]);
  return text;
}

// Columns that a UTF-8 text takes: its bytes without continuation bytes.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xc0) != 0x80; }));
}

bool is_number(const std::string& text) {
  return !text.empty() && text[0] >= '0' && text[0] <= '9' &&
         text.find_first_not_of("0123456789.,% KMGTiB") == std::string::npos;
}

}  // namespace

std::string bytes_text(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  return scaled(static_cast<double>(bytes), 1024, kUnits, 6, 1);
}

std::string count_text(uint64_t count) {
  std::string digits = std::to_string(count);
  for (size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

std::string rate_text(double per_second) {
  static constexpr const char* kUnits[] = {"/s", "k/s", "M/s", "G/s"};
  return scaled(std::max(per_second, 0.0), 1000, kUnits, 4, 1);
}

std::string percent_text(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * share);
  return text;
}

std::string Columns::text() const {
  std::vector<size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string pad(widths[i] - width_of(row[i]), ' ');
      if (i > 0) line += "  ";
      line += is_number(row[i]) ? pad + row[i] : row[i] + pad;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string line_text(const std::string& name, const std::string& value) {
  return name + std::string(kNameColumns > name.size() ? kNameColumns - name.size() : 1, ' ') +
         value + "\n";
}

int fail(const Target& target, const std::string& command, const Status& status) {
  const std::string name(code_name(status.code()));
  std::fprintf(stderr, "kvsidecar %s: %s: %s\n", command.c_str(), name.c_str(),
               status.text().c_str());
  if (target.json) {
    const nlohmann::json json = {{"error", status.text()}, {"status", name}};
    std::printf("%s\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  }
  return status.code() == Code::kInvalid ? kExitUsage : kExitFailed;
}

}  // namespace kvsidecar
