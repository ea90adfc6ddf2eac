// SPDX-License-Identifier: Apache-2.0
// What the engines of a replay have counted, in memory that they share with the process that
// started them: it shows progress and makes the table without asking them, also of one that died.
// Each EngineScore has one writer, its engine; the causes have all of them.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>

#include "clients/cli/replay/causes.h"
#include "clients/cli/replay/latency.h"
#include "ipc/result.h"

namespace kvsidecar {

inline constexpr uint32_t kReplayEnginesMax = 16;

struct EngineScore {
  using Count = std::atomic<uint64_t>;
  Count requests, failed_requests;
  // looked_up = host + store + remote + missed. A page counts as a hit when it was loaded as part
  // of the prompt's leading run.
  Count pages_looked_up, pages_host, pages_store, pages_remote, pages_missed;
  Count pages_put, pages_put_refused;  // stored or there already; not taken in
  Count bytes_wrong, pages_wrong;
  Count bytes_loaded, load_ns;   // of gets, from call to answer
  Count bytes_stored, store_ns;  // of puts, inside the daemon
  Count outage_requests;         // that found no daemon
  // In the second that begins with the first answer of the daemon that was started again.
  Count restart_host, restart_store, restart_looked_up;
  Count after_restart_hits;  // from then to the end
  LatencyHistogram lookup;
};

struct Scoreboard {
  std::atomic<uint64_t> stop;         // engines end after their request when it is not 0
  std::atomic<uint64_t> killed_ns;    // CLOCK_MONOTONIC, set before the daemon is killed; 0: never
  std::atomic<uint64_t> restored_ns;  // of the first answer of the next daemon; 0: none yet
  Causes causes;
  EngineScore engines[kReplayEnginesMax];

  uint64_t sum(EngineScore::Count EngineScore::*count) const {
    uint64_t total = 0;
    for (const EngineScore& engine : engines) total += (engine.*count).load();
    return total;
  }
};

struct UnmapScoreboard {
  void operator()(Scoreboard* board) const;
};
using SharedScoreboard = std::unique_ptr<Scoreboard, UnmapScoreboard>;
// Zeroed and shared with every process forked from now on.
Result<SharedScoreboard> make_scoreboard();

}  // namespace kvsidecar
