// SPDX-License-Identifier: Apache-2.0
// kvsidecar.toml with arbitrary bytes: a refusal begins with the file's name and is a sentence;
// what is accepted keeps to the keys' ranges, and printed as a file it means the same.
#include "sidecar/shell/allow_rules.h"
#include "sidecar/shell/config_file.h"
#include "sidecar/shell/config_keys.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace kvsidecar;
  using namespace kvsidecar::fuzz;
  const std::string source = "fuzzed.toml";
  const std::string text(reinterpret_cast<const char*>(data), bytes);
  const Result<Config> config = parse_config(text, source);
  if (!config.ok()) {
    require(config.status().code() == Code::kInvalid, "a bad file is INVALID");
    require(config.status().text().starts_with(source),
            "a refusal names the file:", config.status().text());
    require_sentence(config.status());
    return 0;
  }
  const std::string printed = print_config(*config);
  const Result<Config> again = parse_config(printed, source);
  require(again.ok(), "what is printed can be read:", again.status().text() + "\n" + printed);
  require(print_config(*again) == printed,
          "a configuration means the same after a round trip:", printed);
  require(again->allow.size() == config->allow.size(), "all [[allow]] come back");

  // A stranger gets nothing that no entry gives him.
  const AllowRules rules(config->allow, 0xfffffff0, std::nullopt);
  const Result<Permissions> stranger = rules.find({1, 0xfffffff1, 0xfffffff1, {}});
  if (stranger.ok()) require(!config->allow.empty(), "a stranger is let in by an entry");
  return 0;
}
