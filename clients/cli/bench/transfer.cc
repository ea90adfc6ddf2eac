// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "clients/cli/bench/floors.h"
#include "clients/cli/bench/measure.h"

namespace kvsidecar {
namespace {

constexpr uint32_t kPages = 64;
constexpr uint64_t kPageBytes = 2ull << 20;
constexpr uint64_t kTotalBytes = kPages * kPageBytes;

struct Scene {
  std::unique_ptr<BenchDaemon> daemon;
  std::unique_ptr<BenchEngine> engine;
  SharedMemory scratch;  // the floor's other side: shared memory like the pool's
};

Result<Scene> make_scene(Bench& bench, uint32_t copy_threads, uint64_t run_bytes) {
  auto scratch = SharedMemory::make(kTotalBytes);
  if (!scratch) return scratch.status();
  std::memset(scratch->data(), 0xa5, scratch->size());
  RigOptions rig;
  rig.pool_bytes = 4 * kTotalBytes;
  rig.copy_threads = copy_threads;
  auto daemon = BenchDaemon::start(bench.daemon, rig);
  if (!daemon) return daemon.status();
  EngineShape shape;
  shape.page_bytes = kPageBytes;
  shape.blocks = kPages;
  shape.run_bytes = run_bytes;
  auto engine = BenchEngine::attach((*daemon)->socket(), shape);
  if (!engine) return engine.status();
  return Scene{daemon.take(), engine.take(), scratch.take()};
}

// What a get copies, by memcpy: whole pages, or each page in runs that lie apart.
std::vector<Piece> pieces_of(Scene& scene, bool is_put, uint64_t run_bytes) {
  std::vector<Piece> pieces;
  const uint64_t run = run_bytes == 0 ? kPageBytes : run_bytes;
  for (uint32_t page = 0; page < kPages; ++page)
    for (uint64_t r = 0; r < kPageBytes / run; ++r) {
      std::byte* block = scene.engine->block(0) + (r * kPages + page) * run;
      std::byte* slot = scene.scratch.data() + page * kPageBytes + r * run;
      pieces.push_back(is_put ? Piece{slot, block, run} : Piece{block, slot, run});
    }
  return pieces;
}

Status measure(Bench& bench, const char* name, bool is_put, uint32_t threads, uint64_t run_bytes,
               double reach) {
  auto scene = make_scene(bench, threads, run_bytes);
  if (!scene) return scene.status();
  if (Status filled = scene->engine->fill(0, kPages); !filled.ok()) return filled;
  const std::vector<Piece> pieces = pieces_of(*scene, is_put, run_bytes);
  uint64_t next = kPages;
  const auto found = interleave(
      bench.options.rounds,
      [&]() -> Result<double> {
        if (!is_put) return scene->engine->get(0, kPages);
        next += kPages;
        return scene->engine->put(next, kPages);
      },
      [&]() -> Result<double> { return memcpy_ns(pieces, threads); });
  if (!found) return found.status();
  constexpr auto kBytes = static_cast<double>(kTotalBytes);
  Figure figure;
  figure.name = name;
  figure.value = kBytes / found->value;  // bytes per ns = GB/s
  figure.floor = kBytes / found->floor;
  figure.unit = "GB/s";
  figure.more_is_better = true;
  figure.ratio_limit = reach;
  figure.note = "64 pages of 2 MiB" + std::string(run_bytes == 0 ? "" : " in 16 KiB runs") +
                ", memcpy by " + std::to_string(threads);
  bench.figures.push_back(figure);
  return {};
}

}  // namespace

Status measure_get(Bench& bench) { return measure(bench, "get", false, 1, 0, 0.9); }
Status measure_get_runs(Bench& bench) {
  return measure(bench, "get in 16 KiB runs", false, 1, 16 << 10, 0.8);
}
Status measure_put_one_thread(Bench& bench) {
  return measure(bench, "put, one copy thread", true, 1, 0, 0.72);
}
Status measure_put_two_threads(Bench& bench) {
  return measure(bench, "put, two copy threads", true, 2, 0, 0.7);
}

}  // namespace kvsidecar
