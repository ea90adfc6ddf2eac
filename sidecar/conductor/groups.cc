// SPDX-License-Identifier: Apache-2.0
#include "sidecar/conductor/groups.h"

#include <algorithm>

namespace kvsidecar {
namespace {

constexpr uint64_t kEndedTicketKeptNs =
    60'000'000'000;                           // how long a late rank is still told EXPIRED
constexpr size_t kTicketsMax = 4096;          // of a group, open or ended
constexpr uint64_t kTicketKeysMax = 1 << 20;  // of their answers together

Group* find_group(World& world, const GroupId& id) {
  for (Group& group : world.groups)
    if (group.id == id) return &group;
  return nullptr;
}

// The rank that asks last must hear of it, however late.
void end_ticket(World& world, Ticket& ticket) {
  if (ticket.ended) return;
  ticket.ended = true;
  ticket.expires_ns = world.now_ns + kEndedTicketKeptNs;
}

bool all_asked(const Group& group, const Ticket& ticket) {
  return ticket.asked.size() >= group.size;
}

}  // namespace

Status join_group(World& world, Session& session, const AttachRequest& request) {
  if (request.group.empty()) return {};
  GroupId id;
  std::copy(request.group.begin(), request.group.end(), id.begin());
  const bool coordinator = request.rank == kCoordinatorRank;
  if (request.group_size == 0 || (!coordinator && request.rank >= request.group_size))
    return invalid("rank " + std::to_string(request.rank) + " doesn't fit group_size " +
                   std::to_string(request.group_size) +
                   "; ranks are 0..size-1, or 65535 for the coordinator");
  if (session.group != nullptr)
    return session.group->id == id && session.rank == request.rank &&
                   session.group->size == request.group_size
               ? Status{}
               : invalid(
                     "group differs from the one this session attached with; open another session");
  Group* group = find_group(world, id);
  if (group == nullptr) {
    if (world.groups.size() >= world.limits.groups_max)
      return {Code::kOverQuota, "groups: " + std::to_string(world.groups.size()) +
                                    " exist already; raise limits.groups_max"};
    group = &world.groups.emplace_back();
    group->id = id;
    group->size = request.group_size;
  }
  if (group->size != request.group_size)
    return invalid("group_size " + std::to_string(request.group_size) +
                   " differs from the group's " + std::to_string(group->size) +
                   "; all ranks must name the same");
  if (coordinator ? group->coordinator != 0 : group->ranks.count(request.rank) != 0)
    return invalid("rank " + std::to_string(request.rank) +
                   " of the group is attached already; each rank attaches once");
  if (coordinator)
    group->coordinator = session.id;
  else
    group->ranks[request.rank] = session.id;
  session.group = group;
  session.rank = request.rank;
  return {};
}

void leave_group(World& world, Session& session) {
  Group* group = session.group;
  if (group == nullptr) return;
  session.group = nullptr;
  if (session.rank == kCoordinatorRank)
    group->coordinator = 0;
  else
    group->ranks.erase(session.rank);
  for (auto& [number, ticket] : group->tickets) end_ticket(world, ticket);
  if (!group->ranks.empty() || group->coordinator != 0) return;
  world.groups.remove_if([group](const Group& other) { return &other == group; });
}

Result<const LookupAnswer*> ticket_answer(World& world, Session& session, uint64_t number,
                                          uint64_t request_hash) {
  Group& group = *session.group;
  const auto found = group.tickets.find(number);
  if (found == group.tickets.end()) return static_cast<const LookupAnswer*>(nullptr);
  Ticket& ticket = found->second;
  if (ticket.request_hash != request_hash)
    return invalid("ticket " + std::to_string(number) +
                   " was used for another lookup; take a new number for each");
  if (session.rank != kCoordinatorRank) ticket.asked.insert(session.rank);
  if (ticket.ended) {
    world.count.tickets_expired.add();
    return Status(Code::kExpired, "ticket " + std::to_string(number) +
                                      ": its lease has ended; all ranks get nothing");
  }
  return &ticket.answer;
}

bool has_ticket_room(const Session& session) {
  return session.group->tickets.size() < kTicketsMax && session.group->ticket_keys < kTicketKeysMax;
}

void keep_answer(World& world, Session& session, uint64_t number, uint64_t request_hash,
                 const LookupAnswer& answer, uint64_t deadline_ns) {
  Ticket ticket;
  ticket.request_hash = request_hash;
  ticket.answer = answer;
  ticket.expires_ns = deadline_ns;
  if (session.rank != kCoordinatorRank) ticket.asked.insert(session.rank);
  world.next_sweep_ns = std::min(world.next_sweep_ns, deadline_ns);
  const auto lease = world.leases.find(answer.lease);
  if (lease != world.leases.end()) lease->second.ticket = number;
  session.group->ticket_keys += answer.keys;
  session.group->tickets[number] = std::move(ticket);
}

void end_ticket_of(World& world, const Lease& lease) {
  Group* group = lease.ticket != 0 ? find_group(world, lease.group) : nullptr;
  if (group == nullptr) return;
  const auto ticket = group->tickets.find(lease.ticket);
  if (ticket != group->tickets.end() && ticket->second.answer.lease == lease.id)
    end_ticket(world, ticket->second);
}

void expire_tickets(World& world) {
  for (Group& group : world.groups) {
    for (auto it = group.tickets.begin(); it != group.tickets.end();) {
      Ticket& ticket = it->second;
      const bool leased = ticket.answer.lease != 0 && !ticket.ended;
      if (!leased && ticket.expires_ns <= world.now_ns && !ticket.ended) end_ticket(world, ticket);
      // An answer that all have read lives on only as its lease.
      const bool over =
          all_asked(group, ticket) || (ticket.ended && ticket.expires_ns <= world.now_ns);
      if (over) group.ticket_keys -= ticket.answer.keys;
      it = over ? group.tickets.erase(it) : std::next(it);
    }
  }
}

}  // namespace kvsidecar
