// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/import/record_key.h"

#include <charconv>

namespace kvsidecar {
namespace {

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool take_hash(std::string_view& text, PageKey& hash) {
  if (text.size() < 2 * hash.size()) return false;
  for (size_t i = 0; i < hash.size(); ++i) {
    const int high = digit_of(text[2 * i]), low = digit_of(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    hash[i] = static_cast<std::byte>(high * 16 + low);
  }
  text.remove_prefix(2 * hash.size());
  return true;
}

bool take_number(std::string_view& text, std::optional<uint16_t>& number) {
  uint16_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  number = value;
  return true;
}

bool take(std::string_view& text, std::string_view begin) {
  if (text.substr(0, begin.size()) != begin) return false;
  text.remove_prefix(begin.size());
  return true;
}

}  // namespace

std::optional<RecordKey> parse_record_key(std::string_view text, std::string_view pool) {
  RecordKey key;
  if (!take_hash(text, key.hash)) return std::nullopt;
  if (pool == "kv") {
    if (text == "-k") key.half = Half::kK;
    if (text == "-v") key.half = Half::kV;
    if (!text.empty() && key.half == Half::kWhole) return std::nullopt;
    return key;
  }
  if (!take(text, "_") || !take(text, pool)) return std::nullopt;
  if (text.empty()) return key;
  if (!take(text, "_") || !take_number(text, key.tp) || !take(text, "_") ||
      !take_number(text, key.tp_size) || !text.empty())
    return std::nullopt;
  return key;
}

}  // namespace kvsidecar
