// SPDX-License-Identifier: Apache-2.0
// Goal: whatever a configuration file holds, the answer is a Config or a sentence that names the
// place and the remedy; no value is taken for another, and none overflows. Method: every key of the
// table with every wrong type and with the edges of its range; files in odd encodings.
#include <gtest/gtest.h>

#include "sidecar/shell/config_file.h"
#include "sidecar/shell/config_keys.h"

namespace kvsidecar {
namespace {

std::string error_of(const std::string& text) {
  const Result<Config> config = parse_config(text, "test.toml");
  return config.ok() ? std::string() : config.status().text();
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string file_with(const ConfigKey& key, const std::string& value) {
  return std::string("[") + key.section + "]\n" + key.name + " = " + value + "\n";
}

// O6-03: a value of another type is refused with the key's path, never taken apart or converted.
TEST(ConfigHostile, EveryKeyRefusesEveryWrongTypeByName) {
  for (const ConfigKey& key : config_keys()) {
    const std::string name = std::string(key.section) + "." + key.name;
    std::vector<std::string> wrong{"[1]", "[\"a\", \"b\"]", "{a = 1}", "true", "1979-05-27"};
    if (key.type == KeyType::kText) {
      wrong.insert(wrong.end(), {"5", "5.5"});
    } else {
      wrong.insert(wrong.end(), {"\"a b\"", "\"\"", "nan", "inf", "-1"});
    }
    for (const std::string& value : wrong) {
      const std::string error = error_of(file_with(key, value));
      EXPECT_TRUE(holds(error, "test.toml:2") && holds(error, name))
          << name << " = " << value << " gave: " << error;
    }
  }
}

// O6-11: sizes at and beyond the edges are refused with what would do, and nothing wraps.
TEST(ConfigHostile, ANumberBeyondTheEdgesOfItsRangeIsRefusedWithTheRange) {
  for (const ConfigKey& key : config_keys()) {
    if (key.type == KeyType::kText || key.type == KeyType::kChoice) continue;
    const std::string name = std::string(key.section) + "." + key.name;
    std::vector<std::string> wrong{std::to_string(key.max + 1), "9223372036854775807"};
    if (key.min > 0) wrong.insert(wrong.end(), {std::to_string(key.min - 1), "0"});
    for (const std::string& value : wrong) {
      const std::string error = error_of(file_with(key, value));
      EXPECT_TRUE(holds(error, name) && holds(error, " to "))
          << name << " = " << value << ": " << error;
    }
  }
}

TEST(ConfigHostile, APoolOfPartsOfAChunkIsRefusedWithTheNearestLegalSize) {
  const std::string chunk = "[host_pool]\nchunk_bytes = \"16MiB\"\nbytes = ";
  EXPECT_TRUE(holds(error_of(chunk + "16777215"), "write \"16MiB\""));
  EXPECT_TRUE(holds(error_of(chunk + "16777217"), "write \"16MiB\" or \"32MiB\""));
  EXPECT_TRUE(holds(error_of(chunk + "33554431"), "write \"16MiB\" or \"32MiB\""));
  EXPECT_TRUE(holds(error_of(chunk + "\"9223372036854775808\""), "host_pool.bytes"));
  EXPECT_TRUE(holds(error_of(chunk + "9223372036854775808"), "test.toml:3"));
}

// O6-07: forms that mean the same have the same effect; what is no TOML names line and column.
TEST(ConfigHostile, ABomAndCommentsAndLineEndsOfOtherSystemsChangeNothing) {
  const std::string text = "# a comment\n[copy]\nthreads = 3 # another\n";
  const std::string crlf = "[copy]\r\nthreads = 3\r\n";
  for (const std::string& form : {text, "\xef\xbb\xbf" + text, crlf}) {
    const Result<Config> config = parse_config(form, "test.toml");
    ASSERT_TRUE(config.ok()) << config.status().text();
    EXPECT_EQ(config->copy_threads, 3u);
  }
}

TEST(ConfigHostile, WhatIsNoTomlNamesLineAndColumn) {
  EXPECT_TRUE(holds(error_of("[copy]\nthreads = 3,\n"), "test.toml:2:12"));
  EXPECT_TRUE(holds(error_of("[copy]\nthreads = 3\nthreads = 4\n"), "test.toml:3"));
  EXPECT_TRUE(holds(error_of("{\"copy\": {\"threads\": 3}}"), "test.toml:1"));
  EXPECT_TRUE(holds(error_of(std::string("\xff\xfe[\0c\0o\0p\0y\0]\0", 14)), "test.toml:1"));
  EXPECT_TRUE(holds(error_of("[copy]\nthreads = 3\n[copy]\nthreads = 3\n"), "test.toml:3"));
}

TEST(ConfigHostile, ALetterThatIsNotAsciiOutsideOfAStringIsRefusedWhereItStands) {
  for (const char* letter : {"\xc3\xbc", "\xcb\xbf", "\xe2\x82\xac", "\xef\xbf\xbd"})
    for (const char* before :
         {"", "[copy]\n", "[copy]\nthreads = ", "[copy]\nthreads = \"\"\"a\\\n"})
      EXPECT_TRUE(holds(error_of(std::string(before) + letter), "test.toml:")) << before << letter;
}

TEST(ConfigHostile, ALongFileIsRead) {
  std::string text;
  while (text.size() < (1u << 20)) text += "# a line of a file of one mebibyte\n";
  const Result<Config> config = parse_config(text + "[copy]\nthreads = 3\n", "test.toml");
  ASSERT_TRUE(config.ok()) << config.status().text();
  EXPECT_EQ(config->copy_threads, 3u);
}

TEST(ConfigHostile, APathWithAControlCharacterIsRefused) {
  for (const char* key : {"[daemon]\nstate_dir", "[store]\nroot", "[host_pool]\ndirectory"})
    EXPECT_TRUE(holds(error_of(std::string(key) + " = \"/a\\u0000b\"\n"), "control character"));
}

TEST(ConfigHostile, APathWithQuotesIsPrintedSoThatItIsReadBackTheSame) {
  const Result<Config> config = parse_config("[store]\nroot = '/a\"b\\c'\n", "test.toml");
  ASSERT_TRUE(config.ok()) << config.status().text();
  const Result<Config> again = parse_config(print_config(*config), "printed.toml");
  ASSERT_TRUE(again.ok()) << again.status().text();
  EXPECT_EQ(again->store_root, "/a\"b\\c");
}

TEST(ConfigHostile, ATenantSaltOfAnyCharactersIsPrintedSoThatItIsReadBackTheSame) {
  const Result<Config> config =
      parse_config("[[allow]]\nuid = 1\ntenant_salts = [\"a\\\"]\\\\\\n\"]\n", "test.toml");
  ASSERT_TRUE(config.ok()) << config.status().text();
  const Result<Config> again = parse_config(print_config(*config), "printed.toml");
  ASSERT_TRUE(again.ok()) << again.status().text();
  EXPECT_EQ(again->allow.at(0).permissions.tenant_salts, std::vector<std::string>{"a\"]\\\n"});
}

TEST(ConfigHostile, AListeningAddressThatIsNoneIsRefused) {
  for (const char* listen : {"9418", "localhost:9418", "127.0.0.1", "127.0.0.1:65536",
                             "127.0.0.1:", "::1:9418", "1.2.3.4:-1", "127.0.0.1\\u0000x:9418"})
    EXPECT_TRUE(
        holds(error_of(std::string("[metrics]\nlisten = \"") + listen + "\"\n"), "metrics.listen"))
        << listen;
  for (const char* listen : {"", "0.0.0.0:0", "[::1]:9418"})
    EXPECT_EQ(error_of(std::string("[metrics]\nlisten = \"") + listen + "\"\n"), "") << listen;
}

// The system's own functions would read these as "root".
TEST(ConfigHostile, ANameThatGoesOnBehindAZeroIsNotTheNameBeforeIt) {
  EXPECT_EQ(error_of("[[allow]]\nuser = \"root\"\n"), "");
  for (const char* key : {"user", "group"})
    EXPECT_TRUE(holds(error_of(std::string("[[allow]]\n") + key + " = \"root\\u0000x\"\n"),
                      "is not known on this machine"))
        << key;
}

}  // namespace
}  // namespace kvsidecar
