// SPDX-License-Identifier: Apache-2.0
// Every key of kvsidecar.toml in one table: name, type, range, help. What the program reads,
// `--print-config`, the default file and the man page are all made from it. Pure; any thread.
#pragma once
#include <span>
#include <string>
#include <variant>

#include "sidecar/shell/config.h"

namespace kvsidecar {

enum class KeyType : uint8_t { kText, kCount, kBytes, kDuration, kChoice };

// Where a key's value lies in a Config; a choice is the number of its word.
using KeyField = std::variant<std::string* (*)(Config&), uint64_t* (*)(Config&),
                              uint32_t* (*)(Config&), uint8_t* (*)(Config&)>;

struct ConfigKey {
  const char* section;
  const char* name;
  KeyType type;
  KeyField field;
  const char* help;  // one or two sentences
  uint64_t min = 0;  // in the key's own unit, as are max and what the file holds
  uint64_t max = ~0ull >> 1;
  bool takes_auto = false;
  uint64_t scale = 1;        // durations: nanoseconds of one unit
  const char* choices = "";  // words separated by '|', in the order of the enum
};
std::span<const ConfigKey> config_keys();

// A key of [[allow]]; these fill in an AllowEntry.
struct AllowKey {
  const char* name;
  const char* type;
  const char* help;
  const char* example;  // a value, as TOML
};
std::span<const AllowKey> allow_keys();

// A value as a TOML file or a command line holds it.
using KeyValue = std::variant<int64_t, double, bool, std::string>;
// Writes the value into the config. The error names key, value and remedy.
Status set_key(Config& config, const ConfigKey& key, const KeyValue& value);
// "8GiB", "512KiB", "4096" -> bytes. The error is a remedy without the key's name.
Result<uint64_t> parse_bytes(const std::string& text);

// A size as a file holds it, in the largest unit that is exact: "64MiB" with its quotes.
std::string print_bytes(uint64_t bytes);
std::string print_text(const std::string& text);  // as a TOML basic string
// The value as TOML, with the largest unit that holds it exactly.
std::string print_value(const Config& config, const ConfigKey& key);
std::string print_config(const Config& config);  // the effective configuration
std::string print_default_file();                // every key commented out, with its help
std::string print_man_table();                   // .TP entries for kvsidecar.toml(5)

}  // namespace kvsidecar
