// SPDX-License-Identifier: Apache-2.0
// What lookups have used, told to eviction and store after the answer is out: the asker doesn't
// wait for bookkeeping. In the order of the lookups, a slice a turn, and all of it before a slot is
// taken or a put begins, so that both see every use that came before them. Conductor's thread only.
#pragma once
#include <deque>
#include <vector>

#include "sidecar/index/index.h"
#include "sidecar/pool/host_pool.h"

namespace kvsidecar {

struct World;

// One pool's pages of one lookup, in the order of the prompt.
struct PoolUses {
  SlotShape shape;
  uint64_t request = 0;            // World::last_access
  std::vector<Hash128> pages;
  std::vector<EntryId> entries;    // kNoEntry: missed. Entry ids are used again: hashes must match
  uint32_t next = 0;               // first that wasn't told yet
};

struct WaitingUses {
  std::deque<PoolUses> lookups;
  uint64_t pages = 0;
};

// Beyond a bound on what waits, the oldest are told at once.
void note_uses(World& world, PoolUses&& uses);
bool tell_some_uses(World& world);  // a slice; false when nothing waited
void tell_all_uses(World& world);

}  // namespace kvsidecar
