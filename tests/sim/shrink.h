// SPDX-License-Identifier: Apache-2.0
// A failing run made short: moves are left out, whole chunks first, as long as it still fails in
// the same way.
#pragma once
#include "tests/sim/simulation.h"

namespace kvsidecar::sim {

// In a process of its own: where the daemon aborts, that is the run's failure.
Outcome play_apart(uint64_t seed, const Moves* only = nullptr);

// What kind of failure it is: its sentence without the numbers.
std::string kind_of(const std::string& violation);

struct Shrunk {
  Outcome outcome;  // of the shortest run
  Moves moves;      // it plays
  uint64_t seed = 0;
  size_t moves_before = 0;
  int runs = 0;
  std::string report() const;  // how to replay it, and what happened
};

// `failed` is the outcome of the whole seed. At most `runs_max` runs are tried.
Shrunk shrink(uint64_t seed, const Outcome& failed, int runs_max = 1500);

}  // namespace kvsidecar::sim
