// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/bench/floors.h"
#include "clients/cli/bench/measure.h"
#include "clients/cli/bench/placement.h"

namespace kvsidecar {
namespace {

constexpr uint32_t kRequests = 1000;
constexpr uint64_t kSpinNs = 1'000'000'000, kNeverSpin = UINT64_MAX;

Status measure(Bench& bench, bool spinning, const char* name) {
  RigOptions rig;
  rig.pool_bytes = 64ull << 20;
  rig.spin_us = spinning ? "1000000" : "0";
  std::optional<CoreScope> place(std::in_place, CoreScope::kServers);
  auto echo = EchoFloor::start(spinning);
  if (!echo) return echo.status();
  auto daemon = BenchDaemon::start(bench.daemon, rig);
  if (!daemon) return daemon.status();
  place.emplace(CoreScope::kAsker);
  EngineShape shape;
  shape.page_bytes = 4096;
  shape.spin_ns = spinning ? kSpinNs : kNeverSpin;
  auto engine = BenchEngine::attach((*daemon)->socket(), shape);
  if (!engine) return engine.status();
  const auto found = interleave(
      bench.options.rounds,
      [&] { return median_of(kRequests, [&] { return (*engine)->empty_request(); }); },
      [&] { return median_of(kRequests, [&] { return (*echo)->round_trip_ns(); }); });
  if (!found) return found.status();
  Figure figure;
  figure.name = name;
  figure.value = found->value / 1e3;
  figure.floor = found->floor / 1e3;
  figure.unit = "us";
  figure.ratio_limit = 1.5;
  figure.note = spinning ? "both sides spin; floor: raw rings" : "both sides sleep; floor: futex";
  bench.figures.push_back(figure);
  return {};
}

}  // namespace

Status measure_round_trip_spinning(Bench& bench) {
  return measure(bench, true, "round trip, spinning");
}
Status measure_round_trip_sleeping(Bench& bench) {
  return measure(bench, false, "round trip, sleeping");
}

}  // namespace kvsidecar
