// SPDX-License-Identifier: Apache-2.0
//
// Prints the hit rates of the host pool's eviction policy beside LRU, S3-FIFO and the clairvoyant
// bound: the share of all page accesses of a trace that lie in a leading run of resident pages, for
// several sizes of the pool. Requests come one after another; the trace is the one that
// KVSIDECAR_TRACE names, else a generated one.
//
//   hit_rate [--json] [--check]
//
// --json: an array, one object per size. --check: exit 1 unless the policy is within half a point
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

void print_row(const Row& row, bool json, bool first) {
  if (json) {
    std::printf(
        "%s{\"pages\": %zu, \"lru_percent\": %.2f, \"s3_fifo_percent\": %.2f, "
        "\"host_pool_percent\": %.2f, \"clairvoyant_percent\": %.2f}",
        first ? "" : ",\n ", row.pages, row.lru, row.s3_fifo, row.host_pool, row.clairvoyant);
  } else {
    std::printf("%8zu %8.2f %8.2f %10.2f %12.2f\n", row.pages, row.lru, row.s3_fifo, row.host_pool,
                row.clairvoyant);
  }
}

int run(bool json, bool check) {
  const char* path = std::getenv("KVSIDECAR_TRACE");
  Trace trace;
  if (path != nullptr && *path != '\0') {
    auto read = read_trace(path, 0);
    if (!read) {
      std::fprintf(stderr, "hit_rate: %s\n", read.status().text().c_str());
      return 2;
    }
    trace = read.take();
  } else {
    trace = generate_trace(kSeed, kGeneratedRequests);
  }
  const Requests requests = pages_of(trace);
  if (json) {
    std::printf("[");
  } else {
    std::printf("hit rate in %%, %zu requests of %s\n", requests.size(), trace.name.c_str());
    std::printf("%8s %8s %8s %10s %12s\n", "pages", "LRU", "S3-FIFO", "host pool", "clairvoyant");
  }
  bool behind = false;
  bool beyond = false;
  for (const size_t pages : kSizesPages) {
    const Row row = measure(requests, pages);
    print_row(row, json, pages == kSizesPages.front());
    behind |= row.host_pool < std::max(row.lru, row.s3_fifo) - kBehindMaxPercent;
    beyond |= std::max({row.lru, row.s3_fifo, row.host_pool}) > row.clairvoyant;
  }
  if (json) std::printf("]\n");
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
  bool json = false;
  bool check = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--json") {
      json = true;
    } else if (argument == "--check") {
      check = true;
    } else {
      std::fprintf(stderr, "hit_rate: unknown argument '%s'; usage: hit_rate [--json] [--check]\n",
                   argv[i]);
      return 2;
    }
  }
  return kvsidecar::run(json, check);
}
