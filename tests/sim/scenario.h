// SPDX-License-Identifier: Apache-2.0
// What one seed plays: how big and how strict the daemon is, what its store and device do wrong,
// and which engines use it.
#pragma once
#include "tests/sim/faults.h"
#include "tests/support/engine.h"

namespace kvsidecar::sim {

struct SpacePlan {
  NamespaceFields fields;
  HitPolicy policy = HitPolicy::kAllPages;
  uint32_t trailing = 0;
};

struct ActorPlan {
  std::vector<int> spaces;  // of Scenario::spaces; the first is the one that is looked up whole
  uint16_t part = 0;        // its tp rank
  bool grouped = false;     // with the other actors that are
  uint32_t runs = 1;        // of its layouts
  uint32_t description_bytes_max = 0;
  bool deaf_at_times = false;  // sends more than there is credit for and reads nothing
};

struct Scenario {
  uint64_t keys = 0;  // of each space
  testing::NodeOptions node;
  bool has_store = false;
  MemoryStore::Options store;
  MemoryFaults store_faults;
  ReadHarm read_harm;
  RingPlan rings;             // used: instead of store_faults
  bool store_harms() const {  // pages may fail their proof
    const uint32_t own = rings.used ? rings.faults.tail_not_read
                                    : store_faults.read_fails + store_faults.read_corrupt;
    return own + read_harm.cut_short + read_harm.swapped > 0;
  }
  DeviceFaults device_faults;
  uint32_t restarts_per_10k = 0;  // steps
  std::vector<SpacePlan> spaces;
  std::vector<ActorPlan> actors;
};

Scenario make_scenario(testing::SeededRandom& random);

}  // namespace kvsidecar::sim
