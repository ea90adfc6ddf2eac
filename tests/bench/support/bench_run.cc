// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/support/bench_run.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace kvsidecar {

void BenchRun::print() const {
  if (json)
    std::printf("%s\n", figures_json(figures).c_str());
  else
    std::printf("%s", figures_text(figures).c_str());
}

std::optional<BenchRun> begin_run(int argc, char** argv, uint32_t rounds,
                                  const std::map<std::string, std::string*>& more, bool* check) {
  BenchRun run;
  std::string rounds_text = std::to_string(rounds);
  std::map<std::string, std::string*> known = more;
  known["--only"] = &run.only;
  known["--rounds"] = &rounds_text;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto option = known.find(argument);
    if (argument == "--json") {
      run.json = true;
    } else if (argument == "--check" && check != nullptr) {
      *check = true;
    } else if (option != known.end() && i + 1 < argc) {
      *option->second = argv[++i];
    } else {
      std::string names = check != nullptr ? "--json, --check" : "--json";
      for (const auto& [name, value] : known) names += ", " + name + " VALUE";
      std::fprintf(stderr, "%s: '%s' is not known or lacks its value; known: %s\n", argv[0],
                   argument.c_str(), names.c_str());
      return std::nullopt;
    }
  }
  run.rounds = static_cast<uint32_t>(std::clamp(std::atoi(rounds_text.c_str()), 1, 1001));
  return run;
}

}  // namespace kvsidecar
