// SPDX-License-Identifier: Apache-2.0
// When the conductor's thread sleeps. It looks on for a while after its last work (a client's next
// request usually comes at once, and a wake-up costs far more than a look), then sleeps. Pure; the
// caller tells the time.
#pragma once
#include "ipc/adaptive_spin.h"

namespace kvsidecar {

class IdlePolicy {
 public:
  static constexpr uint64_t kAutomaticSpinNs = 100'000;

  // spin_ns: how long to look on. 0 = sleep at once. adaptive: only while that pays.
  explicit IdlePolicy(uint64_t spin_ns, bool adaptive = false)
      : spin_ns_(spin_ns), adaptive_(adaptive), spin_(spin_ns) {}

  void worked() { idle_since_ns_ = 0; }
  bool should_sleep(uint64_t now_ns) {
    if (idle_since_ns_ == 0) idle_since_ns_ = now_ns;
    if (adaptive_ && !spin_.pays()) return true;
    return now_ns - idle_since_ns_ >= spin_ns_;
  }
  void slept(uint64_t ns) { spin_.waited(ns); }

 private:
  const uint64_t spin_ns_;
  const bool adaptive_;
  AdaptiveSpin spin_;
  uint64_t idle_since_ns_ = 0;
};

}  // namespace kvsidecar
