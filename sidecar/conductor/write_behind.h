// SPDX-License-Identifier: Apache-2.0
// Write-behind: complete pages wait, bounded in bytes, for the store. When the queue is full the
// write at its front (the coldest) is dropped, never the put. Durable pages aren't dropped: their
// puts are told NOT_STORED when they can't be taken. Conductor's thread only.
#pragma once
#include "sidecar/conductor/world.h"

namespace kvsidecar {

// False when there is no store or no room could be made (durable pages only fill the queue).
bool queue_write(World& world, EntryId entry);
void cancel_write(World& world, EntryId entry);  // evicted, deleted: not counted here
// Submits what depth and rate allow. True when something was.
bool start_writes(World& world);
void write_done(World& world, StoreDone&& done);
void flush_done(World& world, const StoreDone& done);
// A durable item waits for this page; settled NOT_STORED at once when it can't be written.
void wait_durable(World& world, const ItemRef& ref, EntryId entry);
void settle_durable(World& world, EntryId entry, Code code);  // all items that wait for this page
// The scan found it in the store: a queued write is needless, and who waits for one has it.
void found_in_store(World& world, EntryId entry);
// Segments without a page go; over the capacity, others, CLOCK first: their hot pages are queued
// again.
void trim_store(World& world);

}  // namespace kvsidecar
