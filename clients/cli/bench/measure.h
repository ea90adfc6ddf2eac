// SPDX-License-Identifier: Apache-2.0
// How the figures are taken, and the measurements there are. One thread.
#pragma once
#include <string>
#include <vector>

#include "clients/cli/bench/bench.h"
#include "clients/cli/bench/figure.h"
#include "clients/cli/bench/rig.h"

namespace kvsidecar {

struct Bench {
  const BenchOptions& options;
  std::string daemon;
  std::vector<Figure> figures;
  bool wants(const std::string& figure) const;  // is it to be printed?
};

struct Medians {
  double value = 0, floor = 0;
};

// value(), floor(), value(), floor(), …: what slows the machine for a while slows both. The first
// of each warms up and doesn't count. Both give Result<double>.
template <typename Value, typename Floor>
Result<Medians> interleave(uint32_t rounds, Value&& value, Floor&& floor) {
  std::vector<double> values, floors;
  for (uint32_t round = 0; round <= rounds; ++round) {
    const Result<double> one = value();
    if (!one) return one.status();
    const Result<double> least = floor();
    if (!least) return least.status();
    if (round == 0) continue;
    values.push_back(*one);
    floors.push_back(*least);
  }
  return Medians{median(values), median(floors)};
}

// The median of `count` calls of one(), which gives Result<double>.
template <typename One>
Result<double> median_of(uint32_t count, One&& one) {
  std::vector<double> values(count);
  for (double& value : values) {
    const Result<double> got = one();
    if (!got) return got.status();
    value = *got;
  }
  return median(std::move(values));
}

// Each adds the figures named in bench.cc, or says why they couldn't be measured.
Status measure_round_trip_spinning(Bench& bench);
Status measure_round_trip_sleeping(Bench& bench);
Status measure_lookup(Bench& bench);
Status measure_lookup_growth(Bench& bench);
Status measure_lookup_sessions(Bench& bench);
Status measure_get(Bench& bench);
Status measure_get_runs(Bench& bench);
Status measure_put_one_thread(Bench& bench);
Status measure_put_two_threads(Bench& bench);
Status measure_page_get(Bench& bench);
Status measure_idle(Bench& bench);
Status measure_two_clients(Bench& bench);
Status measure_start(Bench& bench);
Status measure_rivals(Bench& bench);

}  // namespace kvsidecar
