// SPDX-License-Identifier: Apache-2.0
// The supervisor: a tiny parent process that ends a daemon which no longer moves, so that an engine
// which must wait for a running copy waits for a known time at most. Forks before any thread is
// made; single-threaded, so it must not start the log's thread. The daemon dies with it
// (PR_SET_PDEATHSIG).
#pragma once
#include <atomic>
#include <cstdint>

namespace kvsidecar {

// A word that the daemon raises while it moves, in memory shared with its supervisor. Copyable; the
// memory lasts as long as the process. Without a supervisor it is a plain word.
class Progress {
 public:
  Progress();  // not shared with anybody
  explicit Progress(std::atomic<uint64_t>* word) : word_(word) {}
  void bump() { word_->fetch_add(1, std::memory_order_relaxed); }
  uint64_t value() const { return word_->load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t>* word_;
};

struct SupervisorOptions {
  uint64_t timeout_ns = 10'000'000'000;  // without progress; 0 = never
  uint64_t backoff_first_ns = 100'000'000, backoff_max_ns = 30'000'000'000;  // between lives
  uint64_t healthy_ns = 60'000'000'000;  // a life this long makes the next back-off the first again
};

// Runs `life(context, progress)` in a child process. A child that is killed by a signal, or by the
// supervisor, is started again; one that exits ends the supervisor with its exit code. SIGTERM and
// SIGINT are passed on and end the restarts. Returns in the parent only; the caller must be
// single-threaded.
int supervise(const SupervisorOptions& options, int (*life)(void* context, Progress progress),
              void* context);

}  // namespace kvsidecar
