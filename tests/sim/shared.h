// SPDX-License-Identifier: Apache-2.0
// What the actors of one run share: the daemon they talk to, time, chance, and what is known.
#pragma once
#include <list>
#include <set>

#include "tests/sim/model.h"
#include "tests/sim/scenario.h"
#include "tests/sim/trace.h"

namespace kvsidecar::sim {

// A lookup that all ranks of the group ask under one number.
struct OpenTicket {
  uint64_t number = 0;
  std::vector<uint64_t> keys;
  std::set<uint16_t> asked;
  std::string answer;  // the first that came, as text; empty = none yet
  int answers = 0;
};

// Once true, something may be missing that was promised: what it was excuses a miss.
struct Excuses {
  bool evicted = false;  // of the host pool
  bool corrupt = false;  // a page did not prove itself, or could not be read
  bool trimmed = false;  // a segment was unlinked
  bool for_a_page() const { return evicted || corrupt; }
};

struct Shared {
  explicit Shared(uint64_t seed) : trace(seed), random(seed) {}

  Trace trace;
  testing::SeededRandom random;
  testing::FakeClock clock;
  Model model;
  Scenario plan;
  testing::Node* node = nullptr;
  Excuses excuses;
  std::list<OpenTicket> tickets;
  uint64_t last_ticket = 0;

  // Event since when this daemon knows the store's pages again.
  uint64_t scanned_at = UINT64_MAX;

  bool store_known(uint64_t sent_at) const { return scanned_at < sent_at; }
  bool store_counts(uint64_t sent_at) const { return store_known(sent_at) && !excuses.trimmed; }
};

}  // namespace kvsidecar::sim
