// SPDX-License-Identifier: Apache-2.0
//
// Prints the hit rates of the host pool's eviction policy beside LRU, S3-FIFO and the clairvoyant
// bound: the share of all page accesses of a trace that lie in a leading run of resident pages, for
// several sizes of the pool. Requests come one after another; the trace is the one that
// KVSIDECAR_TRACE names, else a generated one.
//
// --check: exit 1 unless the policy is within half a point
// of the better reference, or above, at every size, and no policy beats the clairvoyant bound.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "clients/cli/trace/clairvoyant.h"
#include "clients/cli/trace/generator.h"
#include "clients/cli/trace/trace.h"
#include "tests/bench/hit_rate/policies.h"
#include "tests/bench/support/bench_run.h"

namespace kvsidecar {
namespace {

constexpr std::array<size_t, 5> kSizesPages = {2'000, 5'000, 10'000, 20'000, 40'000};
constexpr size_t kGeneratedRequests = 12'000;
constexpr uint64_t kSeed = 1;
constexpr double kBehindMaxPercent = 0.5;

struct Row {
  size_t pages = 0;
  double lru = 0;  // percent, all four
  double s3_fifo = 0;
  double host_pool = 0;
  double clairvoyant = 0;
};

Row measure(const Requests& requests, size_t pages) {
  size_t accesses = 0;
  for (const auto& request : requests) accesses += request.size();
  const auto percent = [accesses](uint64_t hits) {
    return 100.0 * static_cast<double>(hits) / static_cast<double>(accesses);
  };
  return Row{pages, percent(leading_hits(*make_lru(pages), requests)),
             percent(leading_hits(*make_s3_fifo(pages), requests)),
             percent(leading_hits(*make_host_pool(pages), requests)),
             percent(clairvoyant_hits(requests, pages))};
}

Figure figure_of(const Row& row) {
  char note[96];
  std::snprintf(note, sizeof note, "LRU %.2f, S3-FIFO %.2f, clairvoyant %.2f", row.lru, row.s3_fifo,
                row.clairvoyant);
  Figure figure;
  figure.name = "hit rate, " + std::to_string(row.pages) + " pages";
  figure.value = row.host_pool;
  figure.floor = std::max(row.lru, row.s3_fifo);
  figure.unit = "%";
  figure.more_is_better = true;
  figure.value_limit = figure.floor - kBehindMaxPercent;
  figure.note = note;
  return figure;
}

std::optional<Trace> take_trace() {
  const char* path = std::getenv("KVSIDECAR_TRACE");
  if (path == nullptr || *path == '\0') return generate_trace(kSeed, kGeneratedRequests);
  auto read = read_trace(path, 0);
  if (read) return read.take();
  std::fprintf(stderr, "hit_rate: %s\n", read.status().text().c_str());
  return std::nullopt;
}

int measure_all(BenchRun& run, bool check) {
  const auto trace = take_trace();
  if (!trace) return 2;
  const Requests requests = pages_of(*trace);
  std::fprintf(stderr, "%zu requests of %s\n", requests.size(), trace->name.c_str());
  bool behind = false;
  bool beyond = false;
  for (const size_t pages : kSizesPages) {
    const Row row = measure(requests, pages);
    const Figure figure = figure_of(row);
    behind |= !figure.ok();
    beyond |= std::max({row.lru, row.s3_fifo, row.host_pool}) > row.clairvoyant;
    run.add(figure);
  }
  run.print();
  if (check && behind) {
    std::fprintf(stderr, "hit_rate: the host pool is more than %.1f points behind a reference\n",
                 kBehindMaxPercent);
    return 1;
  }
  if (check && beyond) {
    std::fprintf(stderr, "hit_rate: a policy beats the clairvoyant bound, so the bound is wrong\n");
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace kvsidecar

int main(int argc, char** argv) {
  bool check = false;
  auto run = kvsidecar::begin_run(argc, argv, 1, {}, &check);  // nothing is timed
  return run ? kvsidecar::measure_all(*run, check) : 2;
}
