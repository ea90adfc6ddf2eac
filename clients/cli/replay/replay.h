// SPDX-License-Identifier: Apache-2.0
// `kvsidecar replay`: engine processes that replay a request trace against a daemon and compare
// every byte that they load. Forks its engines, so it must be called from a process that has one
// thread and no open client. Blocks until the replay ends; prints progress to stderr and the table
// (or JSON) to stdout.
#pragma once
#include <cstdint>
#include <string>

namespace kvsidecar {

struct ReplayOptions {
  // --socket; the daemon's. Empty: what `config` names, else the client library's default
  std::string socket;
  std::string trace;  // --trace FILE. Empty: $KVSIDECAR_TRACE; unset: generated from `seed`
  // --daemon PATH with --config FILE: replay starts this kvsidecard itself, kills it with SIGKILL
  // in the middle, starts it again and stops it at the end. Both empty: the daemon at `socket`,
  // which is left alone.
  std::string daemon;
  std::string config;
  uint32_t requests = 4000;         // --requests; of the trace, from its start
  uint32_t seconds = 0;             // --seconds; stop after that long. 0: no limit
  uint32_t engines = 2;             // --engines, 1..16; requests are dealt to them in turn
  uint64_t page_bytes = 64 * 1024;  // --page-bytes, 4 KiB..16 MiB, a multiple of 4 KiB
  uint64_t seed = 1;                // --seed; of page contents and of a generated trace
  bool json = false;                // --json; the table as one JSON object
  bool shape = false;               // --shape; print how the trace compares, replay nothing
};

// Exit code: 0; 1 when a byte was wrong, a request failed, nothing could be put or hit, or
// nothing hit after the restart; 2 when it could not run (the reason is on stderr).
int run_replay(const ReplayOptions& options);

}  // namespace kvsidecar
