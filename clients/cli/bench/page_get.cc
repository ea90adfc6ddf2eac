// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/bench/measure.h"
#include "clients/cli/bench/plain_server.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kPageBytes = 256ull << 10;
constexpr uint32_t kPages = 128;
constexpr uint32_t kGets = 300;
constexpr uint64_t kBriefSpinNs = 20'000;

}  // namespace

Status measure_page_get(Bench& bench) {
  auto server =
      PlainServer::start({.page_bytes = kPageBytes, .blocks = 1, .slots = kPages, .keys = {}});
  if (!server) return server.status();
  RigOptions rig;
  rig.pool_bytes = 128ull << 20;
  auto daemon = BenchDaemon::start(bench.daemon, rig);
  if (!daemon) return daemon.status();
  EngineShape shape;
  shape.page_bytes = kPageBytes;
  shape.blocks = 16;
  shape.spin_ns = kBriefSpinNs;
  auto engine = BenchEngine::attach((*daemon)->socket(), shape);
  if (!engine) return engine.status();
  if (Status filled = (*engine)->fill(0, kPages); !filled.ok()) return filled;
  uint32_t next = 0;
  const auto found = interleave(
      bench.options.rounds,
      [&] { return median_of(kGets, [&] { return (*engine)->get(next++ % kPages, 1); }); },
      [&] {
        return median_of(kGets, [&] {
          const PlainServer::Copy copy{0, next++ % kPages};
          return (*server)->get_ns({&copy, 1});
        });
      });
  if (!found) return found.status();
  Figure figure;
  figure.name = "get of one 256 KiB page";
  figure.value = found->value / 1e3;
  figure.floor = found->floor / 1e3;
  figure.unit = "us";
  figure.ratio_limit = 1.3;
  figure.note = "p50; floor: a bare futex server";
  bench.figures.push_back(figure);
  return {};
}

}  // namespace kvsidecar
