// SPDX-License-Identifier: Apache-2.0
// Admission of puts and gets: permissions, quotas, memory, fence. Then puts.h and gets.h serve
// them. Conductor's thread only.
#pragma once
#include "sidecar/conductor/world.h"

namespace kvsidecar {

void take_put(World& world, const OpRef& op, const PutRequest& request);
void take_get(World& world, const OpRef& op, const GetRequest& request);
// Operations whose fence was reached go on. True when one did.
bool check_fences(World& world);
// Items past their deadline that no worker has end kTimeout (durable ones kNotStored).
void expire_operations(World& world);

}  // namespace kvsidecar
