// SPDX-License-Identifier: Apache-2.0
// The daemon's metrics in Prometheus' text form: every counter of conductor/counters.h, and gauges
// from the snapshot that the conductor leaves now and then. Names: kvsidecar_<counter>_total and
// kvsidecar_<gauge>.
#pragma once
#include <memory>
#include <string>

#include "sidecar/conductor/conductor.h"

namespace kvsidecar {

struct StoreCounters;
struct UsrbioCounters;

// The conductor's gauges as the HTTP thread reads them.
struct MetricsSnapshot {
  Gauges gauges;
  uint64_t epoch = 0, chunks = 0, chunks_planned = 0;
  bool reachable = true;  // the socket's path is there
};

class Metrics {
 public:
  Metrics();
  ~Metrics();
  // Before the HTTP thread starts. All outlive it; `store` and `usrbio` may be null.
  void set_counters(const Counters* counters, const StoreCounters* store,
                    const UsrbioCounters* usrbio = nullptr);
  void leave_snapshot(const MetricsSnapshot& now);  // conductor
  MetricsSnapshot snapshot() const;                 // any thread
  std::string text() const;                         // any thread

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvsidecar
