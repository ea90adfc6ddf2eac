// SPDX-License-Identifier: Apache-2.0
// The engine processes of a replay, forked from the process that reports. They end with it. One
// thread, no client may be open in the forking process.
#pragma once
#include <sys/types.h>

#include <vector>

#include "clients/cli/replay/engine.h"

namespace kvsidecar {

class Fleet {
 public:
  Fleet() = default;
  ~Fleet();  // SIGKILL to those that still run
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  // Forks one process for each of options.engines. Everything is shared by copy but the board.
  Status start(const EngineOptions& options, const std::vector<std::vector<uint64_t>>& prompts,
               Scoreboard& board);
  // Takes ended ones in; how many still run. Never blocks.
  size_t running();
  // Of those that have ended: how many could not do their work (they have said why).
  size_t failed() const { return failed_; }

 private:
  std::vector<pid_t> engines_;
  size_t failed_ = 0;
};

}  // namespace kvsidecar
