// SPDX-License-Identifier: Apache-2.0
// Fetches: a page comes from the store into a slot, or an adopted page is checked; however many
// wait for it, it is read and hashed once. Whatever does not prove itself is a miss of that page
// and of no other. Conductor's thread only.
#pragma once
#include "sidecar/conductor/world.h"

namespace kvsidecar {

// Joins or starts the fetch of a visible page. `waiter` null = a prefetch. The waiter's item is
// kFetching; it is told by page_resident(), or settled with kBusy, kIoError, kCorrupt or kMiss.
void fetch(World& world, EntryId entry, const SlotShape& shape, const ItemRef* waiter);
void read_done(World& world, StoreDone&& done);
void check_done(World& world, HashDone&& done);

}  // namespace kvsidecar
