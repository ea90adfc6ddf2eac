// SPDX-License-Identifier: Apache-2.0
// What the daemon takes from outside: time, random numbers, fault points. Production passes the
// real ones (env.cc), the simulator and the tests pass their own. Objects outlive everything that
// uses them.
#pragma once
#include <cstdint>
#include <string_view>

namespace kvsidecar {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual uint64_t now_ns() = 0;   // CLOCK_MONOTONIC; any thread
  virtual uint64_t wall_ms() = 0;  // CLOCK_REALTIME, for stored time stamps only
};

class Random {
 public:
  virtual ~Random() = default;
  virtual uint64_t next() = 0;  // owner's thread only
};

// A named place where a test can make an operation fail. Production never fails.
class FaultPoints {
 public:
  virtual ~FaultPoints() = default;
  // The errno to fail with at this place and time, or 0. Any thread.
  virtual int fail(std::string_view point) = 0;
};

Clock& real_clock();
FaultPoints& no_faults();
class SystemRandom final : public Random {  // seeded from getrandom()
 public:
  SystemRandom();
  uint64_t next() override;

 private:
  uint64_t state_[2];
};

}  // namespace kvsidecar
