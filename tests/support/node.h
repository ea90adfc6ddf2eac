// SPDX-License-Identifier: Apache-2.0
// One daemon without its shell, in one thread: the real conductor, pool, index, host device,
// workers and reapers, over a store that the test chooses, stepped by hand or in an order that a
// seed decides.
#pragma once
#include <deque>
#include <memory>

#include "sidecar/device/host_device.h"
#include "tests/support/fakes.h"

namespace kvsidecar::testing {

struct NodeOptions {
  uint64_t pool_bytes = 4ull << 20;
  uint64_t span_bytes = 256 * 1024;
  uint64_t epoch = 1;
  size_t copy_workers = 1;
  bool inline_copies = false;
  size_t queue_entries = 64;  // of each worker: few make queues full
  Limits limits{};
  Store* store = nullptr;  // null = none
};

// What outlives a daemon: the pool's memory and the namespaces' records.
struct NodeRemains {
  std::vector<std::byte> pool;  // with room to align
  std::span<std::byte> chunk;   // empty = never used
  KeptNamespaces namespaces;
};

class Node {
 public:
  Node(const NodeOptions& options, NodeRemains& remains, Clock& clock, SeededRandom& random,
       FaultPoints& faults = no_faults());
  ~Node();  // lets everything in flight end first

  Conductor& conductor() { return *conductor_; }
  HostPool& pool() { return pool_; }
  HostDevice& device() { return device_; }
  KeptLog& log() { return log_; }
  // Steps every part once, in order. True when any did something.
  bool step();
  // Steps one part that `random` picks: the conductor half of the time.
  void step_one(SeededRandom& random);
  // Until nothing moves. Fails the caller's test (returns false) when that takes too long.
  bool settle();

 private:
  NodeOptions options_;
  KeptLog log_;
  HostDevice device_;
  HostPool pool_;
  Waker waker_;
  std::vector<std::unique_ptr<CopyWorker>> copy_workers_;
  std::unique_ptr<CopyWorker> inline_copy_;
  HashWorker hash_worker_;
  Reaper reaper_, device_reaper_;
  std::vector<Worker*> workers_;
  std::unique_ptr<Conductor> conductor_;
};

}  // namespace kvsidecar::testing
