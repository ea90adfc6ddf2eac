// SPDX-License-Identifier: Apache-2.0
#include "sidecar/conductor/leases.h"

#include <algorithm>

#include "sidecar/conductor/groups.h"
#include "sidecar/conductor/slots.h"

namespace kvsidecar {
namespace {

uint64_t bytes_of(const World& world, const std::vector<EntryId>& entries) {
  uint64_t bytes = 0;
  for (const EntryId entry : entries) bytes += page_bytes(world, world.index[entry]);
  return bytes;
}

bool over_cap(const World& world, const Session& session, size_t pages, uint64_t bytes) {
  const Limits& limits = world.limits;
  if (session.lease_pages + pages > limits.lease_pages_per_session) return true;
  const uint64_t pool_bytes = world.parts.pool->usage().bytes;
  return world.lease_bytes + bytes > pool_bytes / 100 * limits.lease_share_percent;
}

}  // namespace

uint64_t grant_lease(World& world, Session& session, std::vector<EntryId> entries, uint32_t ms) {
  const uint64_t bytes = bytes_of(world, entries);
  if (over_cap(world, session, entries.size(), bytes)) {
    world.count.leases_capped.add();
    return 0;
  }
  Lease lease;
  lease.id = world.new_handle();
  lease.session = session.id;
  lease.group = session.group != nullptr ? session.group->id : GroupId{};
  lease.grouped = session.group != nullptr;
  lease.bytes = bytes;
  lease.expires_ns = world.now_ns + std::min(uint64_t{ms} * 1'000'000, world.limits.lease_max_ns);
  lease.entries = std::move(entries);
  for (const EntryId entry : lease.entries) pin(world, entry);
  session.lease_pages += lease.entries.size();
  world.lease_bytes += bytes;
  world.lease_pages += lease.entries.size();
  world.next_sweep_ns = std::min(world.next_sweep_ns, lease.expires_ns);
  world.count.leases_given.add();
  const uint64_t id = lease.id;
  world.lease_ends.emplace(lease.expires_ns, id);
  world.leases.emplace(id, std::move(lease));
  return id;
}

void end_lease(World& world, uint64_t id) {
  const auto found = world.leases.find(id);
  if (found == world.leases.end()) return;
  const Lease lease = std::move(found->second);
  world.leases.erase(found);
  world.lease_ends.erase({lease.expires_ns, id});
  const auto session = world.sessions.find(lease.session);
  if (session != world.sessions.end()) session->second->lease_pages -= lease.entries.size();
  world.lease_bytes -= lease.bytes;
  world.lease_pages -= lease.entries.size();
  for (const EntryId entry : lease.entries) unpin(world, entry);
  if (lease.grouped) end_ticket_of(world, lease);
}

Result<Lease*> find_lease(World& world, Session& session, uint64_t id) {
  if (!world.of_this_epoch(id)) return world.unknown_handle("lease", id);
  const auto found = world.leases.find(id);
  if (found == world.leases.end())
    return Status(Code::kExpired,
                  "lease " + std::to_string(id) + " has ended; look the prompt up again");
  Lease& lease = found->second;
  const bool mine = lease.grouped ? session.group != nullptr && session.group->id == lease.group
                                  : lease.session == session.id;
  if (!mine) return world.unknown_handle("lease", id);
  return &lease;
}

void end_leases_of(World& world, Session& session) {
  std::vector<uint64_t> ids;
  for (const auto& [id, lease] : world.leases) {
    const bool of_group =
        lease.grouped && session.group != nullptr && lease.group == session.group->id;
    if (lease.session == session.id || of_group) ids.push_back(id);
  }
  for (const uint64_t id : ids) end_lease(world, id);
}

void expire_leases(World& world) {
  std::set<std::pair<uint64_t, uint64_t>>& ends = world.lease_ends;
  while (!ends.empty() && ends.begin()->first <= world.now_ns) {
    world.count.leases_expired.add();
    end_lease(world, ends.begin()->second);
  }
  if (!ends.empty()) world.next_sweep_ns = std::min(world.next_sweep_ns, ends.begin()->first);
}

}  // namespace kvsidecar
