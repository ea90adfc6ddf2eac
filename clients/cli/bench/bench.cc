// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/bench/bench.h"

#include <algorithm>
#include <cstdio>

#include "clients/cli/bench/measure.h"

namespace kvsidecar {
namespace {

constexpr int kExitFailed = 1, kExitUsage = 2;

struct Measurement {
  std::vector<std::string> figures;  // that it adds
  Status (*measure)(Bench& bench);
};

const std::vector<Measurement>& measurements() {
  static const std::vector<Measurement> kAll = {
      {{"round trip, spinning"}, measure_round_trip_spinning},
      {{"round trip, sleeping"}, measure_round_trip_sleeping},
      {{"lookup of 512 keys"}, measure_lookup},
      {{"lookup among many pages"}, measure_lookup_growth},
      {{"lookup with 64 sessions"}, measure_lookup_sessions},
      {{"get"}, measure_get},
      {{"get in 16 KiB runs"}, measure_get_runs},
      {{"put, one copy thread"}, measure_put_one_thread},
      {{"put, two copy threads"}, measure_put_two_threads},
      {{"get of one 256 KiB page"}, measure_page_get},
      {{"idle daemon"}, measure_idle},
      {{"two clients at once", "two clients' shares"}, measure_two_clients},
      {{"start with stored pages"}, measure_start},
  };
  return kAll;
}

bool is_wanted(const BenchOptions& options, const std::string& figure) {
  return figure.find(options.only) != std::string::npos;
}

bool is_wanted(const BenchOptions& options, const Measurement& measurement) {
  return std::any_of(measurement.figures.begin(), measurement.figures.end(),
                     [&](const std::string& figure) { return is_wanted(options, figure); });
}

int list_figures(const BenchOptions& options) {
  for (const Measurement& measurement : measurements())
    for (const std::string& figure : measurement.figures)
      if (is_wanted(options, figure)) std::printf("%s\n", figure.c_str());
  return 0;
}

}  // namespace

int run_bench(const BenchOptions& options) {
  if (options.list) return list_figures(options);
  const auto& all = measurements();
  if (std::none_of(all.begin(), all.end(),
                   [&](const Measurement& one) { return is_wanted(options, one); })) {
    std::fprintf(stderr,
                 "kvsidecar bench: --only is '%s', which no figure has in its name; "
                 "--list shows them\n",
                 options.only.c_str());
    return kExitUsage;
  }
  auto daemon = find_daemon(options.daemon);
  if (!daemon) {
    std::fprintf(stderr, "kvsidecar bench: %s\n", daemon.status().text().c_str());
    return kExitUsage;
  }
  Bench bench{options, daemon.take(), {}};
  int code = 0;
  for (const Measurement& measurement : all) {
    if (!is_wanted(options, measurement)) continue;
    std::fprintf(stderr, "measuring: %s\n", measurement.figures[0].c_str());
    if (Status measured = measurement.measure(bench); !measured.ok()) {
      std::fprintf(stderr, "kvsidecar bench: %s: %s\n", measurement.figures[0].c_str(),
                   measured.text().c_str());
      code = kExitFailed;
    }
  }
  std::erase_if(bench.figures, [&](const Figure& f) { return !is_wanted(options, f.name); });
  if (options.json)
    std::printf("%s\n", figures_json(bench.figures).c_str());
  else
    std::printf("%s", figures_text(bench.figures).c_str());
  return code;
}

}  // namespace kvsidecar
