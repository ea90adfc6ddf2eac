// SPDX-License-Identifier: Apache-2.0
// Time as the test tells it.
#pragma once
#include <atomic>

#include "sidecar/env.h"

class FakeClock final : public kvsidecar::Clock {
 public:
  uint64_t now_ns() override { return now_.load(); }
  uint64_t wall_ms() override { return wall_.load(); }
  void advance_ns(uint64_t ns) { now_ += ns; }
  void set_wall_ms(uint64_t ms) { wall_ = ms; }

 private:
  std::atomic<uint64_t> now_{1'000'000'000}, wall_{1'700'000'000'000};
};
