// SPDX-License-Identifier: Apache-2.0
// Lookups: the set of restorable prefixes over all pools at once. Conductor's thread only.
#pragma once
#include "sidecar/conductor/world.h"

namespace kvsidecar {

// One record of a lookup arrived; answers after the last. False: records out of order, the session
// must end.
bool take_lookup(World& world, Session& session, const RecordHead& head,
                 const LookupRequest& request);

// Which prefixes can be restored. Pure, for tests: `present[p][i]` says whether key i is there in
// pool p.
struct PoolPresence {
  HitPolicy policy;
  uint32_t pages;
  std::vector<uint8_t> present;
};
// Bit i of the result: the prefix of i+1 pages; returns the longest.
uint32_t restorable_prefixes(const std::vector<PoolPresence>& pools, uint32_t keys,
                             std::vector<uint8_t>& bits);

}  // namespace kvsidecar
