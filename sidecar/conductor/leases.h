// SPDX-License-Identifier: Apache-2.0
// Leases: pins between lookup and load, with expiry and caps. Conductor's thread only.
#pragma once
#include "sidecar/conductor/world.h"

namespace kvsidecar {

// Pins the entries for `ms` (at most the configured longest). 0 when a cap is reached: nothing is
// pinned then.
uint64_t grant_lease(World& world, Session& session, std::vector<EntryId> entries, uint32_t ms);
void end_lease(World& world, uint64_t id);
// The lease, if this session or its group holds it; else why not.
Result<Lease*> find_lease(World& world, Session& session, uint64_t id);
void end_leases_of(World& world, Session& session);  // its own and its group's
void expire_leases(World& world);

}  // namespace kvsidecar
