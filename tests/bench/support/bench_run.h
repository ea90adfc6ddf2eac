// SPDX-License-Identifier: Apache-2.0
// How the benchmarks of this folder are asked and how they answer: as `kvsidecar bench` does, for
// what needs internals. One thread.
//
//   NAME [--json] [--only TEXT] [--rounds N] and what the benchmark adds
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "clients/cli/bench/figure.h"

namespace kvsidecar {

struct BenchRun {
  bool json = false;
  std::string only;     // figures with this in their name
  uint32_t rounds = 0;  // of each figure and of its floor, in turns
  std::vector<Figure> figures;

  bool wants(const std::string& figure) const { return figure.find(only) != std::string::npos; }
  void add(Figure figure) {
    if (wants(figure.name)) figures.push_back(std::move(figure));
  }
  void print() const;  // to stdout, as table or JSON
};

// nullopt: an argument is wrong and stderr says which are known; exit with 2. `more`: further
// options, "--name" to where its value goes. "--check" is known where `check` isn't null.
std::optional<BenchRun> begin_run(int argc, char** argv, uint32_t rounds,
                                  const std::map<std::string, std::string*>& more = {},
                                  bool* check = nullptr);

}  // namespace kvsidecar
