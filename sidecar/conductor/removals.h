// SPDX-License-Identifier: Apache-2.0
// What leaves the store: tombstones of single pages, and segments that are unlinked. The daemon
// drains until all of it has been done. Conductor's thread only.
#pragma once
#include "sidecar/conductor/world.h"

namespace kvsidecar {

// Appends a tombstone, so that no later scan finds the page there. False when the store's queue is
// full (counted).
bool bury(World& world, const StoreLocation& location);
// These wait here while the store's queue is full.
void bury_surely(World& world, const StoreLocation& location);
void unlink_segment(World& world, uint64_t segment);
void retry_removals(World& world);
void removal_done(World& world, const StoreDone& done);
bool removals_wait(const World& world);

}  // namespace kvsidecar
