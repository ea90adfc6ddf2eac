// SPDX-License-Identifier: Apache-2.0
// The store's breaker: opens when nothing has completed for stall_ns although something is in
// flight, or after errors_in_row errors; probes after a back-off that doubles; closes when a probe
// succeeds. Pure: time is passed in. One owner.
#pragma once
#include <cstdint>

namespace kvsidecar {

class Breaker {
 public:
  struct Limits {
    uint64_t stall_ns = 2'000'000'000;
    uint32_t errors_in_row = 16;
    uint64_t backoff_ns = 250'000'000;  // doubles from here
    uint64_t backoff_ns_max = 10'000'000'000;
  };
  enum class State : uint8_t { kClosed, kOpen, kProbing };

  explicit Breaker(const Limits& limits) : limits_(limits), backoff_ns_(limits.backoff_ns) {}
  State state() const { return state_; }
  bool closed() const { return state_ == State::kClosed; }

  // Each returns true when the state changed.
  bool succeeded(uint64_t now_ns);  // a command's I/O; while open it proves nothing
  bool failed(uint64_t now_ns);
  bool trip(uint64_t now_ns);  // opens it, whatever was counted
  // oldest_ns: when the oldest I/O in flight began, or 0.
  bool watch(uint64_t now_ns, uint64_t oldest_ns);
  // Open and the back-off is over: the caller probes and reports.
  bool probe_due(uint64_t now_ns);
  bool probed(uint64_t now_ns, bool ok);

 private:
  bool open(uint64_t now_ns);
  const Limits limits_;
  State state_ = State::kClosed;
  uint32_t errors_ = 0;
  uint64_t last_done_ns_ = 0, probe_ns_ = 0, backoff_ns_;
};

}  // namespace kvsidecar
