// SPDX-License-Identifier: Apache-2.0
// From ready items to copy workers and back: fair turns by bytes over the sessions, loads before
// stores, a bounded number of bytes at each worker. Conductor's thread only.
#pragma once
#include "sidecar/conductor/world.h"

namespace kvsidecar {

// The item's page is in host memory and its fence was reached: it waits for its turn.
void make_ready(World& world, const ItemRef& ref);
bool start_copies(World& world);   // true when something was started
bool finish_copies(World& world);  // polls the workers' completions

}  // namespace kvsidecar
