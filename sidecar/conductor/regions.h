// SPDX-License-Identifier: Apache-2.0
// Regions and block layouts of a session: imported and echoed on the device's reaper, checked once,
// closed when nothing uses them. Conductor's thread only.
#pragma once
#include "sidecar/conductor/world.h"

namespace kvsidecar {

void start_register_region(World& world, const OpRef& op, const RegisterRegionRequest& request);
bool fd_fits(const Session& session, uint64_t token);  // else too many wait, or one under it
void close_pending_fds(World& world, Session& session);
void fd_arrived(World& world, Session& session, uint64_t token);  // it lies in pending_fds
// Answers a registration whose fd did not come before its deadline or its session's end; harmless
// on others.
void fd_missed(World& world, const OpRef& op);
void register_layout(World& world, const OpRef& op, const RegisterLayoutRequest& request);
void start_unregister(World& world, const OpRef& op, Handle handle);

// Items of a put or get become memory: every number is checked here, once. part_bytes: what each
// item must sum to.
Status resolve_items(World& world, Session& session, const Items& items, uint64_t part_bytes,
                     Operation& op);

}  // namespace kvsidecar
