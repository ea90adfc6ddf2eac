// SPDX-License-Identifier: Apache-2.0
// One run: a seed decides the scenario and then every move, so the same seed gives the same run.
// First moves of daemon and engines in any order, with faults, clock jumps and restarts; then the
// faults stop and everything that waits must end.
#pragma once
#include <memory>
#include <string>

#include "tests/sim/actor.h"
#include "tests/sim/moves.h"

namespace kvsidecar::sim {

struct Outcome {
  std::string violation;  // empty = none
  std::string story;      // the last events that led to it
  uint32_t moves = 0;     // played
  uint64_t hash = 0;      // of all events
  uint64_t events = 0, restarts = 0, writes = 0, evicted = 0;
  RingCounts rings;
};

constexpr uint32_t kStepsMax = 3000;

class Simulation {
 public:
  // `only` these moves are played, looked at closely after each; null = all.
  explicit Simulation(uint64_t seed, const Moves* only = nullptr);
  ~Simulation();
  Outcome run();

 private:
  std::unique_ptr<WatchedStore> make_store();
  void start_daemon();
  // What a killed daemon leaves behind.
  struct Remains {
    std::vector<uint64_t> memory;
    testing::KeptNamespaces records;
    MemoryDisk disk;
    std::vector<LateWrite> late_writes;
  };
  Remains remains_now();
  std::vector<LateWrite> writes_in_flight() const;
  void go_on_until(const std::function<bool()>& reached);
  std::optional<Remains> die_in_a_turn();
  void kill_daemon();
  void rot_memory();
  void restart_daemon();
  void one_move();
  void pass_time();
  void change_faults();
  void land_late_writes();
  void look(bool whole);  // invariants
  bool waits() const;
  void let_time_pass();
  void calm_down();
  void take_excuses();

  const uint64_t seed_;
  const Moves* const only_;
  Shared shared_;
  SimFaults faults_;
  std::shared_ptr<MemoryDisk> disk_ = std::make_shared<MemoryDisk>();
  testing::NodeRemains remains_;
  std::unique_ptr<WatchedStore> store_;
  std::unique_ptr<testing::Node> node_;
  std::vector<std::unique_ptr<Actor>> actors_;
  std::vector<LateWrite> late_writes_;  // of the daemon before; its slots are in quarantine
  bool predecessor_gone_ = true, rotted_ = false;
  uint64_t restarts_ = 0, evicted_ = 0;
  RingCounts rings_;  // of the daemons before
};

}  // namespace kvsidecar::sim
