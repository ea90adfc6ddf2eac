// SPDX-License-Identifier: Apache-2.0
#include "sidecar/env.h"

#include <sys/random.h>
#include <time.h>

#include "ipc/result.h"

namespace kvsidecar {
namespace {

class RealClock final : public Clock {
 public:
  uint64_t now_ns() override { return read(CLOCK_MONOTONIC); }
  uint64_t wall_ms() override { return read(CLOCK_REALTIME) / 1'000'000; }

 private:
  static uint64_t read(clockid_t id) {
    timespec t{};
    clock_gettime(id, &t);
    return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
  }
};

class NoFaults final : public FaultPoints {
 public:
  int fail(std::string_view) override { return 0; }
};

uint64_t rotate_left(uint64_t value, int bits) { return (value << bits) | (value >> (64 - bits)); }

}  // namespace

Clock& real_clock() {
  static RealClock clock;
  return clock;
}

FaultPoints& no_faults() {
  static NoFaults faults;
  return faults;
}

SystemRandom::SystemRandom() {
  KV_CHECK(getrandom(state_, sizeof state_, 0) == static_cast<ssize_t>(sizeof state_));
  state_[0] |= 1;  // xoroshiro's state must not be all zero
}

uint64_t SystemRandom::next() {  // xoroshiro128+
  const uint64_t a = state_[0];
  uint64_t b = state_[1];
  const uint64_t sum = a + b;
  b ^= a;
  state_[0] = rotate_left(a, 24) ^ b ^ (b << 16);
  state_[1] = rotate_left(b, 37);
  return sum;
}

}  // namespace kvsidecar
