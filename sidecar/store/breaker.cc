// SPDX-License-Identifier: Apache-2.0
#include "sidecar/store/breaker.h"

#include <algorithm>

namespace kvsidecar {

bool Breaker::open(uint64_t now_ns) {
  state_ = State::kOpen;
  probe_ns_ = now_ns + backoff_ns_;
  backoff_ns_ = std::min(backoff_ns_ * 2, limits_.backoff_ns_max);
  return true;
}

bool Breaker::succeeded(uint64_t now_ns) {
  last_done_ns_ = now_ns;
  if (state_ == State::kClosed) {
    errors_ = 0;
    backoff_ns_ = limits_.backoff_ns;
  }
  return false;
}

bool Breaker::failed(uint64_t now_ns) {
  last_done_ns_ = now_ns;
  if (state_ != State::kClosed || ++errors_ < limits_.errors_in_row) return false;
  return open(now_ns);
}

bool Breaker::trip(uint64_t now_ns) { return state_ == State::kClosed && open(now_ns); }

bool Breaker::watch(uint64_t now_ns, uint64_t oldest_ns) {
  if (state_ != State::kClosed || oldest_ns == 0) return false;
  // Slow is not stalled: while others complete, the oldest may take its time.
  const uint64_t quiet_since = std::max(oldest_ns, last_done_ns_);
  if (now_ns < quiet_since + limits_.stall_ns) return false;
  return open(now_ns);
}

bool Breaker::probe_due(uint64_t now_ns) {
  if (state_ != State::kOpen || now_ns < probe_ns_) return false;
  state_ = State::kProbing;
  return true;
}

bool Breaker::probed(uint64_t now_ns, bool ok) {
  if (state_ != State::kProbing) return false;
  if (!ok) {
    open(now_ns);
    return false;
  }
  state_ = State::kClosed;
  errors_ = 0;
  last_done_ns_ = now_ns;
  return true;
}

}  // namespace kvsidecar
