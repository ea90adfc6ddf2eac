// SPDX-License-Identifier: Apache-2.0
// The outcome of a replay: one struct, shown as a table or as JSON, and judged. Pure but for the
// printing; any thread.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "clients/cli/replay/scoreboard.h"

namespace kvsidecar {

struct ReplayReport {
  std::string trace;
  uint64_t page_bytes = 0;
  double seconds = 0;
  uint64_t requests = 0, failed_requests = 0, engines_failed = 0;
  uint64_t pages_looked_up = 0, pages_host = 0, pages_store = 0, pages_remote = 0, pages_missed = 0;
  uint64_t pages_put = 0, pages_put_refused = 0;
  std::vector<Cause> causes;  // of what failed or was refused
  uint64_t bytes_loaded = 0, bytes_stored = 0, bytes_wrong = 0;
  double load_gb_per_s = 0, store_gb_per_s = 0;  // while an engine waits; 10^9 bytes
  double lookup_p50_us = 0, lookup_p99_us = 0;
  // What the best any cache of that many pages could hit of these requests; pages 0: unknown.
  uint64_t pool_capacity_pages = 0, total_capacity_pages = 0;
  uint64_t best_pool_hits = 0, best_total_hits = 0;
  bool restarted = false;  // the daemon was killed and started again
  double outage_ms = 0;    // from the kill to the first answer of the next daemon
  uint64_t outage_requests = 0;
  uint64_t restart_host = 0, restart_store = 0, restart_looked_up = 0, after_restart_hits = 0;

  uint64_t hits() const { return pages_host + pages_store + pages_remote; }
};

// All but trace, seconds, capacities and best hits, from the engines' counts.
ReplayReport report_of(const Scoreboard& board);

std::string report_table(const ReplayReport& report);
std::string report_json(const ReplayReport& report);

// Empty, or the sentence that says why the replay failed.
std::string failure_of(const ReplayReport& report);
// "PASSED: …" or "FAILED: …": one line.
std::string verdict(const ReplayReport& report);

}  // namespace kvsidecar
