// SPDX-License-Identifier: Apache-2.0
#include <sys/statvfs.h>

#include <algorithm>
#include <cstdio>

#include "clients/cli/bench/floors.h"
#include "clients/cli/bench/measure.h"

namespace kvsidecar {
namespace {

constexpr uint32_t kKeys = 512;
constexpr uint32_t kLookups = 200;
constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kManyPages = 64 * 1024;
constexpr uint32_t kBatch = 512;
// A page of 4 KiB takes a slot and its entry in the span's table.
constexpr uint64_t kPoolBytesPerPage = kPageBytes + 512;

// A daemon whose pool holds pages 0 .. pages - 1, and an engine attached to it.
struct Scene {
  std::unique_ptr<BenchDaemon> daemon;
  std::unique_ptr<BenchEngine> engine;
  uint64_t pages = 0;
  uint64_t next = 0;

  // Prompts walk through all pages, so that no cache holds just one of them.
  std::vector<std::byte> prompt() {
    const uint64_t first = next;
    next = next + 2 * kKeys > pages ? 0 : next + kKeys;
    return bench_keys(first, kKeys);
  }
  Result<double> median_ns() {
    return median_of(kLookups, [&] { return engine->lookup(prompt(), kKeys); });
  }
};

Result<Scene> make_scene(Bench& bench, uint64_t pages, uint64_t room_for) {
  RigOptions rig;
  rig.pool_bytes = std::max<uint64_t>(room_for * kPoolBytesPerPage, 64ull << 20);
  auto daemon = BenchDaemon::start(bench.daemon, rig);
  if (!daemon) return daemon.status();
  EngineShape shape;
  shape.page_bytes = kPageBytes;
  shape.blocks = kBatch;
  auto engine = BenchEngine::attach((*daemon)->socket(), shape);
  if (!engine) return engine.status();
  if (Status filled = (*engine)->fill(0, pages); !filled.ok()) return filled;
  return Scene{daemon.take(), engine.take(), pages};
}

uint64_t most_pages(const BenchOptions& options) {
  struct statvfs space {};
  if (options.pages_max != 0) return std::max<uint64_t>(options.pages_max, 2 * kKeys);
  if (statvfs("/dev/shm", &space) != 0) return kManyPages;
  const uint64_t quarter = space.f_bavail * space.f_frsize / 4 / kPoolBytesPerPage;
  return std::clamp<uint64_t>(quarter, 2 * kKeys, 500'000);
}

// How long the other process keeps its sessions: until the word changes.
struct Crowd {
  std::atomic<uint32_t> attached, end;
};

int attach_crowd(const std::string& socket, uint32_t count, Crowd& crowd) {
  std::vector<std::unique_ptr<BenchEngine>> engines;
  EngineShape shape;
  shape.page_bytes = kPageBytes;
  shape.blocks = 1;
  for (uint32_t i = 0; i < count; ++i) {
    auto engine = BenchEngine::attach(socket, shape);
    if (!engine) {
      std::fprintf(stderr, "session %u: %s\n", i + 1, engine.status().text().c_str());
      crowd.attached.store(UINT32_MAX);
      futex_wake(crowd.attached);
      return 1;
    }
    engines.push_back(engine.take());
  }
  crowd.attached.store(count);
  futex_wake(crowd.attached);
  while (!await_change(crowd.end, 0, 1'000'000'000)) {
  }
  return 0;
}

Figure growth_figure(const char* name, double value, double floor, std::string note) {
  Figure figure;
  figure.name = name;
  figure.value = value / 1e3;
  figure.floor = floor / 1e3;
  figure.unit = "us";
  figure.ratio_limit = 2;
  figure.note = std::move(note);
  return figure;
}

}  // namespace

Status measure_lookup(Bench& bench) {
  auto scene = make_scene(bench, kManyPages, kManyPages + kManyPages / 8);
  if (!scene) return scene.status();
  const BareTable table(bench_keys(0, kManyPages));
  uint64_t found = 0;
  const auto medians = interleave(
      bench.options.rounds, [&] { return scene->median_ns(); },
      [&] {
        return median_of(kLookups,
                         [&]() -> Result<double> { return table.find_ns(scene->prompt(), found); });
      });
  if (!medians) return medians.status();
  Figure figure = growth_figure("lookup of 512 keys", medians->value, medians->floor,
                                std::to_string(kManyPages) + " pages, all hits, p50");
  figure.value_limit = 60;
  figure.ratio_limit = 4;
  bench.figures.push_back(figure);
  return {};
}

Status measure_lookup_growth(Bench& bench) {
  constexpr uint64_t kFew = 2 * kKeys;
  const uint64_t many = most_pages(bench.options);
  auto scene = make_scene(bench, kFew, many + many / 8);
  if (!scene) return scene.status();
  const auto few = median_of(bench.options.rounds, [&] { return scene->median_ns(); });
  if (!few) return few.status();
  if (Status filled = scene->engine->fill(kFew, many - kFew); !filled.ok()) return filled;
  scene->pages = many;
  const auto grown = median_of(bench.options.rounds, [&] { return scene->median_ns(); });
  if (!grown) return grown.status();
  bench.figures.push_back(growth_figure(
      "lookup among many pages", *grown, *few,
      std::to_string(many) + " pages; floor: the same among " + std::to_string(kFew)));
  return {};
}

Status measure_lookup_sessions(Bench& bench) {
  constexpr uint32_t kOthers = 63;
  auto memory = SharedMemory::make(4096);
  if (!memory) return memory.status();
  Crowd& crowd = memory->as<Crowd>();
  auto scene = make_scene(bench, 8 * kKeys, 16 * kKeys);
  if (!scene) return scene.status();
  const auto alone = median_of(bench.options.rounds, [&] { return scene->median_ns(); });
  if (!alone) return alone.status();
  const std::string socket = scene->daemon->socket();
  auto child = Child::run([&] { return attach_crowd(socket, kOthers, crowd); });
  if (!child) return child.status();
  if (!await_change(crowd.attached, 0, 60'000'000'000) || crowd.attached.load() != kOthers)
    return {Code::kTimeout, "63 further sessions could not be attached"};
  const auto crowded = median_of(bench.options.rounds, [&] { return scene->median_ns(); });
  crowd.end.store(1);
  futex_wake(crowd.end);
  if (child->wait() != 0) return {Code::kInternal, "the process with 63 sessions failed"};
  if (!crowded) return crowded.status();
  bench.figures.push_back(growth_figure("lookup with 64 sessions", *crowded, *alone,
                                        "63 idle ones; floor: the same with 1"));
  return {};
}

}  // namespace kvsidecar
