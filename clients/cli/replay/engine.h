// SPDX-License-Identifier: Apache-2.0
// One engine of a replay, in a process of its own: owns device memory cut into blocks, a block
// allocator and one namespace, and does for each of its requests what an engine does: lookup with a
// lease, get of the longest restorable prefix, comparison of every loaded byte, put of the rest
// while it goes on with the next request.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "clients/cli/replay/scoreboard.h"

namespace kvsidecar {

struct EngineOptions {
  std::string socket;
  uint32_t number = 0;   // of this engine, 0 .. engines - 1
  uint32_t engines = 1;  // request i belongs to engine i % engines
  uint64_t page_bytes = 0;
  uint64_t seed = 0;  // of keys and page contents
  uint64_t run = 0;   // of this replay alone: its namespace holds nothing of an earlier one
  bool daemon_may_vanish = true;  // false: a missing daemon is a failure but for the planned outage
};

// Runs the engine's share of `prompts` (page numbers, in order); returns when it is done or
// board.stop is set. An error: it could not start, or had to give up.
Status run_engine(const EngineOptions& options, const std::vector<std::vector<uint64_t>>& prompts,
                  Scoreboard& board);

}  // namespace kvsidecar
