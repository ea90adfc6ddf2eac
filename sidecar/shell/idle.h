// SPDX-License-Identifier: Apache-2.0
// When the conductor's thread sleeps. It looks on for a while after its last work (a client's next
// request usually comes at once, and a wake-up costs far more than a look), then sleeps. Pure; the
// caller tells the time.
#pragma once
#include <cstdint>

namespace kvsidecar {

class IdlePolicy {
 public:
  // spin_ns: how long to look on. 0 = sleep at once.
  explicit IdlePolicy(uint64_t spin_ns) : spin_ns_(spin_ns) {}
  // `auto` for a machine of that many cores: where a spinning daemon would take the core that its
  // clients need, it doesn't spin.
  static uint64_t automatic_spin_ns(uint32_t cores) { return cores > 2 ? 50'000 : 0; }

  void worked() { idle_since_ns_ = 0; }
  bool should_sleep(uint64_t now_ns) {
    if (idle_since_ns_ == 0) idle_since_ns_ = now_ns;
    return now_ns - idle_since_ns_ >= spin_ns_;
  }

 private:
  const uint64_t spin_ns_;
  uint64_t idle_since_ns_ = 0;
};

}  // namespace kvsidecar
