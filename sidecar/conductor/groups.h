// SPDX-License-Identifier: Apache-2.0
// Groups: the ranks of one engine. The first rank's lookup under a ticket fixes the answer for all.
// Conductor's thread only.
#pragma once
#include "sidecar/conductor/world.h"

namespace kvsidecar {

// Makes the session a member; kInvalid when size or rank don't fit what the group has.
Status join_group(World& world, Session& session, const AttachRequest& request);
void leave_group(World& world, Session& session);  // its leases were ended before

// The ticket's answer: null = this rank is the first, keep what it finds by keep_answer(). kExpired
// when its lease has ended, kInvalid when another request came under the same ticket.
Result<const LookupAnswer*> ticket_answer(World& world, Session& session, uint64_t ticket,
                                          uint64_t request_hash);
// False when the group has too many open tickets.
bool has_ticket_room(const Session& session);
void keep_answer(World& world, Session& session, uint64_t ticket, uint64_t request_hash,
                 const LookupAnswer& answer, uint64_t deadline_ns);
void end_ticket_of(World& world, const Lease& lease);  // EXPIRED to all ranks from now on
void expire_tickets(World& world);

}  // namespace kvsidecar
