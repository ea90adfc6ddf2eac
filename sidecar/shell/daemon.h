// SPDX-License-Identifier: Apache-2.0
// The composition root: builds every part of the daemon from a Config, owns the threads, turns the
// conductor, and takes everything down again in order. build() and run() on one thread, which is
// the conductor's.
#pragma once
#include <memory>

#include "sidecar/shell/config.h"
#include "sidecar/shell/supervisor.h"

namespace kvsidecar {

class Daemon {
 public:
  // Claims the directories, checks the pool's plan, opens the store, listens. An error names what
  // to change; nothing is left behind. Blocks SIGTERM and SIGINT, which run() reads.
  static Result<std::unique_ptr<Daemon>> build(const Config& config, Progress progress);
  ~Daemon();

  // Serves until SIGTERM or SIGINT, then drains (a second signal ends that). The exit code.
  int run();

 private:
  struct State;
  explicit Daemon(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace kvsidecar
