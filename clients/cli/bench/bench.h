// SPDX-License-Identifier: Apache-2.0
// `kvsidecar bench`: figures of a daemon that it starts itself in a temporary directory, each
// beside the floor of this machine measured in the same run, their rounds interleaved. Reached or
// not is printed, never asserted. Forks, so it must be called from a process that has one thread
// and no open client. Blocks for minutes; progress goes to stderr, the table to stdout.
#pragma once
#include <cstdint>
#include <string>

namespace kvsidecar {

struct BenchOptions {
  std::string daemon;      // --daemon; empty: beside this program, else in PATH
  std::string only;        // --only: figures with this in their name
  std::string python;      // --python: the interpreter for the figures from Python; empty: none
  uint32_t rounds = 7;     // --rounds: of each figure and of its floor, interleaved
  uint64_t pages_max = 0;  // --pages: of the figures about growth; 0: what fits into /dev/shm
  bool json = false;       // --json
  bool list = false;       // --list: names only
};

// Exit code: 0 when everything could be measured; 1 when a figure couldn't; 2 when none can (the
// reason is on stderr).
int run_bench(const BenchOptions& options);

}  // namespace kvsidecar
