// SPDX-License-Identifier: Apache-2.0
// Where the two sides of a figure run. The scheduler may put a floor's two processes on one core
// and the daemon and its client on two, or the other way round: which of them is measured then is
// chance. So both floors and daemons start on one core and the asking thread runs on another.
#pragma once
#include <sched.h>

namespace kvsidecar {

// This thread, and what it starts meanwhile, on one core until the scope ends.
class CoreScope {
 public:
  enum Side : int { kAsker = 0, kServers = 1 };
  explicit CoreScope(Side side);  // of the cores that this thread may use; modulo their number
  ~CoreScope();
  CoreScope(const CoreScope&) = delete;
  CoreScope& operator=(const CoreScope&) = delete;

 private:
  cpu_set_t before_;
};

}  // namespace kvsidecar
