// SPDX-License-Identifier: Apache-2.0
// Sessions: their turns, and their end. What a session owns ends with it, however it dies: queued
// items are dropped at once, what a worker has is waited for, then regions close and the memory
// goes. Conductor's thread only.
#pragma once
#include "sidecar/conductor/world.h"

namespace kvsidecar {

// Takes at most a fair number of records from each session. True when any was taken.
bool take_records(World& world);
bool records_wait(const World& world);
// Stops taking and answering; why = for the log. Harmless when it has ended already.
void end_session(World& world, Session& session, const char* why, bool hostile);
// Frees sessions that have ended and that nothing refers to any more.
void free_ended_sessions(World& world);

}  // namespace kvsidecar
