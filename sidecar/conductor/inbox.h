// SPDX-License-Identifier: Apache-2.0
// From a record to the module that serves it. `record` is the conductor's private copy; one
// completion cell is reserved. Conductor's thread only.
#pragma once
#include "sidecar/conductor/world.h"

namespace kvsidecar {

void take_request(World& world, Session& session, const RecordHead& head, Bytes record);

// Answers a lookup whose last record didn't come before its deadline.
void expire_lookup(World& world, Session& session);

}  // namespace kvsidecar
