// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/core/fault_rule.h"

#include <charconv>
#include <cstring>
#include <optional>
#include <string>

namespace kvsidecar::fake3fs {
namespace {

constexpr int kErrnoMax = 200;

std::optional<uint64_t> whole_number(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number > INT64_MAX)
    return std::nullopt;
  return number;
}

std::optional<int64_t> value_of(FaultKind kind, std::string_view text) {
  const auto number = whole_number(text);
  switch (kind) {
    case FaultKind::kErrno: {
      const int error =
          number && *number < kErrnoMax ? static_cast<int>(*number) : errno_of_name(text);
      if (error == 0) return std::nullopt;
      return error;
    }
    case FaultKind::kSwitch:
      if (text == "on") return 1;
      if (text == "off") return 0;
      return std::nullopt;
    case FaultKind::kStall:
      if (text == "on") return 0;
      break;
    case FaultKind::kMicroseconds:
    case FaultKind::kBytes:
    case FaultKind::kNumber:
      break;
  }
  if (!number) return std::nullopt;
  return static_cast<int64_t>(*number);
}

// "3", "3+", "3-5", "%4"
bool set_times(std::string_view text, FaultRule& rule) {
  if (text.starts_with('%')) {
    const auto every = whole_number(text.substr(1));
    if (!every || *every == 0) return false;
    rule.first = rule.every = *every;
    return true;
  }
  const size_t dash = text.find('-');
  const bool open_end = text.ends_with('+');
  const auto first = whole_number(text.substr(0, open_end ? text.size() - 1 : dash));
  if (!first || *first == 0) return false;
  rule.first = rule.last = *first;
  if (open_end) rule.last = UINT64_MAX;
  if (dash == std::string_view::npos) return true;
  const auto last = whole_number(text.substr(dash + 1));
  if (!last || *last < *first) return false;
  rule.last = *last;
  return true;
}

}  // namespace

bool FaultRule::strikes() {
  ++seen;
  return seen >= first && seen <= last && (seen - first) % every == 0;
}

Result<FaultRule> parse_fault_rule(FaultKind kind, std::string_view text) {
  FaultRule rule;
  const size_t at = text.find('@');
  const auto value = value_of(kind, text.substr(0, at));
  if (!value)
    return invalid("the fault's value '" + std::string(text.substr(0, at)) +
                   "' isn't one: say an errno's name, a number, on or off, as the fault needs");
  rule.value = *value;
  if (at != std::string_view::npos && !set_times(text.substr(at + 1), rule))
    return invalid("the fault's times '" + std::string(text.substr(at + 1)) +
                   "' aren't any: say @3, @3+, @3-5 or @%4");
  return rule;
}

int errno_of_name(std::string_view name) {
  for (int error = 1; error < kErrnoMax; ++error) {
    const char* known = ::strerrorname_np(error);
    if (known != nullptr && name == known) return error;
  }
  return 0;
}

}  // namespace kvsidecar::fake3fs
