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
      {{"rivals' work, put", "rivals' work, get", "rivals' work, put of one page",
        "rivals' work, get of one page", "rivals' work, lookup", "rivals' work from Python, put",
        "rivals' work from Python, get", "rivals' work from Python, put of one page",
        "rivals' work from Python, get of one page", "rivals' work from Python, lookup",
        "rivals' work from Python, client's own time"},
       measure_rivals},
  };
  return kAll;
}

// With --python the rivals' work alone, from both clients; without it none from Python.
bool is_wanted(const BenchOptions& options, const std::string& figure) {
  const bool rivals = figure.rfind("rivals' work", 0) == 0;
  const bool from_python = figure.find("from Python") != std::string::npos;
  if (options.python.empty() ? from_python : !rivals) return false;
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

bool Bench::wants(const std::string& figure) const { return is_wanted(options, figure); }

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
  std::erase_if(bench.figures, [&](const Figure& f) { return !bench.wants(f.name); });
  if (options.json)
    std::printf("%s\n", figures_json(bench.figures).c_str());
  else
    std::printf("%s", figures_text(bench.figures).c_str());
  return code;
}

}  // namespace kvsidecar
