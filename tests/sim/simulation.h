// SPDX-License-Identifier: Apache-2.0
// One run: a seed decides the scenario and then every step, so the same seed gives the same run.
// First `steps` moves of daemon and engines in any order, with faults, clock jumps and restarts;
// then the faults stop and everything that waits must end.
#pragma once
#include <memory>
#include <string>

#include "tests/sim/actor.h"

namespace kvsidecar::sim {

struct Outcome {
  std::string failure;  // empty = none
  uint64_t hash = 0;    // of all events
  uint64_t events = 0, restarts = 0, writes = 0, evicted = 0;
};

class Simulation {
 public:
  explicit Simulation(uint64_t seed);
  ~Simulation();
  Outcome run();

 private:
  void start_daemon();
  void kill_daemon();
  void rot_memory();
  void restart_daemon();
  void one_move();
  void pass_time();
  void change_faults();
  void land_late_writes();
  void look();  // invariants
  void calm_down();
  void take_excuses();

  Shared shared_;
  SimFaults faults_;
  std::shared_ptr<MemoryDisk> disk_ = std::make_shared<MemoryDisk>();
  testing::NodeRemains remains_;
  std::unique_ptr<WatchedStore> store_;
  std::unique_ptr<testing::Node> node_;
  std::vector<std::unique_ptr<Actor>> actors_;
  std::vector<LateWrite> late_writes_;  // of the daemon before; its slots are in quarantine
  bool predecessor_gone_ = true;
  uint64_t restarts_ = 0, moves_ = 0, evicted_ = 0;
};

}  // namespace kvsidecar::sim
