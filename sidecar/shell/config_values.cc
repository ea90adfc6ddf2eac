// SPDX-License-Identifier: Apache-2.0
// Values of keys: from what a file holds into a Config, and back into text.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <vector>

#include "sidecar/shell/config_keys.h"
#include "sidecar/shell/nearest.h"

namespace kvsidecar {
namespace {

struct ByteUnit {
  const char* name;
  uint64_t bytes;
};
constexpr ByteUnit kByteUnits[] = {
    {"TiB", 1ull << 40}, {"GiB", 1ull << 30}, {"MiB", 1ull << 20}, {"KiB", 1ull << 10}, {"B", 1}};

std::string full_name(const ConfigKey& key) { return std::string(key.section) + "." + key.name; }

std::string show(const KeyValue& value) {
  if (const auto* i = std::get_if<int64_t>(&value)) return std::to_string(*i);
  if (const auto* d = std::get_if<double>(&value)) return std::to_string(*d);
  if (const auto* b = std::get_if<bool>(&value)) return *b ? "true" : "false";
  return "\"" + std::get<std::string>(value) + "\"";
}

Status wrong(const ConfigKey& key, const KeyValue& value, const std::string& remedy) {
  return invalid(full_name(key) + " = " + show(value) + " " + remedy);
}

std::vector<std::string> words_of(const char* choices) {
  std::vector<std::string> words(1);
  for (const char* c = choices; *c != 0; ++c)
    if (*c == '|')
      words.emplace_back();
    else
      words.back() += *c;
  return words;
}

std::string print_range(const ConfigKey& key) {
  const auto number = [&](uint64_t n) {
    return key.type == KeyType::kBytes ? print_bytes(n) : std::to_string(n);
  };
  return number(key.min) + " to " + number(key.max) + (key.takes_auto ? ", or \"auto\"" : "");
}

void store_number(Config& config, const ConfigKey& key, uint64_t number) {
  if (const auto* wide = std::get_if<uint64_t* (*)(Config&)>(&key.field))
    *(*wide)(config) = number;
  else if (const auto* narrow = std::get_if<uint32_t* (*)(Config&)>(&key.field))
    *(*narrow)(config) = static_cast<uint32_t>(number);
  else
    *std::get<uint8_t* (*)(Config&)>(key.field)(config) = static_cast<uint8_t>(number);
}

uint64_t load_number(const Config& config, const ConfigKey& key) {
  Config& fields = const_cast<Config&>(config);  // the table's accessors only take addresses
  if (const auto* wide = std::get_if<uint64_t* (*)(Config&)>(&key.field)) return *(*wide)(fields);
  if (const auto* narrow = std::get_if<uint32_t* (*)(Config&)>(&key.field))
    return *(*narrow)(fields);
  return *std::get<uint8_t* (*)(Config&)>(key.field)(fields);
}

Status set_bytes(Config& config, const ConfigKey& key, const KeyValue& value) {
  uint64_t number = 0;
  if (const auto* i = std::get_if<int64_t>(&value); i != nullptr && *i >= 0) {
    number = static_cast<uint64_t>(*i);
  } else if (const auto* s = std::get_if<std::string>(&value)) {
    const Result<uint64_t> parsed = parse_bytes(*s);
    if (!parsed) return wrong(key, value, parsed.status().text());
    number = *parsed;
  } else {
    return wrong(key, value, "must be a size: a number of bytes, or a text such as \"8GiB\"");
  }
  if (number < key.min || number > key.max) return wrong(key, value, "must be " + print_range(key));
  store_number(config, key, number);
  return {};
}

Status set_duration(Config& config, const ConfigKey& key, const KeyValue& value) {
  double number = 0;
  if (const auto* i = std::get_if<int64_t>(&value))
    number = static_cast<double>(*i);
  else if (const auto* d = std::get_if<double>(&value))
    number = *d;
  else
    return wrong(key, value, "must be a number: the unit is the last part of the key's name");
  if (!std::isfinite(number) || number < static_cast<double>(key.min) ||
      number > static_cast<double>(key.max))
    return wrong(key, value, "must be " + print_range(key));
  store_number(config, key, static_cast<uint64_t>(std::llround(number * double(key.scale))));
  return {};
}

Status set_choice(Config& config, const ConfigKey& key, const KeyValue& value) {
  const std::vector<std::string> words = words_of(key.choices);
  const auto* word = std::get_if<std::string>(&value);
  for (size_t i = 0; word != nullptr && i < words.size(); ++i)
    if (words[i] == *word) {
      store_number(config, key, i);
      return {};
    }
  std::string all;
  for (const std::string& w : words) all += (all.empty() ? "\"" : ", \"") + w + "\"";
  std::string remedy = "must be one of " + all;
  if (word != nullptr) remedy += "; did you mean \"" + nearest(*word, words) + "\"?";
  return wrong(key, value, remedy);
}

// "1.5GiB" as whole MiB; the unit is the text behind the digits. Empty when it isn't such a size.
std::string whole_size(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  std::string unit(end);
  while (!unit.empty() && unit.front() == ' ') unit.erase(0, 1);
  for (size_t i = 0; i + 2 < std::size(kByteUnits); ++i) {
    const double smaller = std::floor(number * 1024);
    if (unit == kByteUnits[i].name && smaller >= 1 && smaller < 1e15)
      return "\"" + std::to_string(static_cast<uint64_t>(smaller)) + kByteUnits[i + 1].name + "\"";
  }
  return "";
}

}  // namespace

Result<uint64_t> parse_bytes(const std::string& text) {
  size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') ++digits;
  if (digits == 0 || digits > 15) return invalid("must be a size such as \"8GiB\"");
  const uint64_t number = std::stoull(text.substr(0, digits));
  std::string unit = text.substr(digits);
  while (!unit.empty() && unit.front() == ' ') unit.erase(0, 1);
  if (unit.empty()) return number;
  if (unit.front() == '.' || unit.front() == ',') {
    const std::string whole = whole_size(text);
    return invalid("must be a whole number of a unit, such as " +
                   (whole.empty() ? "\"1536MiB\"" : whole));
  }
  for (const ByteUnit& known : kByteUnits)
    if (unit == known.name) {
      if (number > ~0ull / known.bytes) return invalid("is more than 64 bits hold");
      return number * known.bytes;
    }
  return invalid("has the unknown unit \"" + unit + "\"; write B, KiB, MiB, GiB or TiB");
}

Status set_key(Config& config, const ConfigKey& key, const KeyValue& value) {
  const auto* word = std::get_if<std::string>(&value);
  if (key.takes_auto && word != nullptr && *word == "auto") {
    store_number(config, key, kAuto);
    return {};
  }
  switch (key.type) {
    case KeyType::kText:
      if (word == nullptr) return wrong(key, value, "must be a text in quotes");
      *std::get<std::string* (*)(Config&)>(key.field)(config) = *word;
      return {};
    case KeyType::kBytes:
      return set_bytes(config, key, value);
    case KeyType::kDuration:
      return set_duration(config, key, value);
    case KeyType::kChoice:
      return set_choice(config, key, value);
    case KeyType::kCount:
      break;
  }
  const auto* number = std::get_if<int64_t>(&value);
  if (number == nullptr || *number < 0 || static_cast<uint64_t>(*number) < key.min ||
      static_cast<uint64_t>(*number) > key.max)
    return wrong(key, value, "must be a whole number, " + print_range(key));
  store_number(config, key, static_cast<uint64_t>(*number));
  return {};
}

std::string print_bytes(uint64_t bytes) {
  if (bytes == 0) return "0";
  for (const ByteUnit& unit : kByteUnits)
    if (bytes % unit.bytes == 0 && unit.bytes > 1)
      return "\"" + std::to_string(bytes / unit.bytes) + unit.name + "\"";
  return std::to_string(bytes);
}

std::string print_text(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    char code[8];
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned char>(c));
      out += code;
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string print_value(const Config& config, const ConfigKey& key) {
  if (key.type == KeyType::kText)
    return print_text(*std::get<std::string* (*)(Config&)>(key.field)(const_cast<Config&>(config)));
  const uint64_t number = load_number(config, key);
  if (key.takes_auto && number == kAuto) return "\"auto\"";
  if (key.type == KeyType::kBytes) return print_bytes(number);
  if (key.type == KeyType::kChoice) return "\"" + words_of(key.choices)[number] + "\"";
  if (key.type == KeyType::kCount || number % key.scale == 0)
    return std::to_string(number / key.scale);
  return std::to_string(double(number) / double(key.scale));
}

}  // namespace kvsidecar
