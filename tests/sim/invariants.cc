// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/invariants.h"

#include <algorithm>
#include <map>
#include <set>

#include "sidecar/conductor/slots.h"
#include "sidecar/conductor/world.h"

namespace kvsidecar::sim {
namespace {

using Pins = std::map<EntryId, uint64_t>;

std::string differ(const char* what, uint64_t is, uint64_t should_be) {
  return std::string(what) + " is " + std::to_string(is) + " and should be " +
         std::to_string(should_be);
}

Pins pins_by_owner(const World& world) {
  Pins pins;
  for (const auto& [id, lease] : world.leases)
    for (const EntryId entry : lease.entries) ++pins[entry];
  for (const auto& [id, session] : world.sessions)
    for (const auto& [request, op] : session->ops)
      for (const OpItem& item : op->items)
        if (item.pinned) ++pins[item.entry];
  for (const auto& [entry, fetch] : world.fetches) ++pins[entry];
  for (const auto& [token, write] : world.store_writes) ++pins[write.entry];
  for (const auto& [token, entry] : world.store_flushes) ++pins[entry];
  return pins;
}

std::string broken_pins(const World& world) {
  const Pins pins = pins_by_owner(world);
  std::set<EntryId> entries;
  for (const auto& [entry, count] : pins) entries.insert(entry);
  std::string astray;
  for_bound_slots(world, [&](SlotId slot, EntryId entry) {
    entries.insert(entry);
    if (world.index[entry].host_slot != slot)
      astray = "slot " + std::to_string(slot) + " is of an entry that lies in another slot";
  });
  if (!astray.empty()) return astray;
  for (uint32_t n = 0; n < world.segments.numbers(); ++n) {
    if (!world.segments.in_use(n)) continue;
    const auto& pages = world.segments.entries(n);
    for (uint32_t slot = 0; slot < pages.size(); ++slot) {
      if (pages[slot] == kNoEntry) continue;
      entries.insert(pages[slot]);
      const PageEntry& page = world.index[pages[slot]];
      if (page.segment != n || page.store_slot != slot)
        return "a segment's slot is of an entry that lies elsewhere";
    }
  }
  for (const EntryId entry : entries) {
    const auto owned = pins.find(entry);
    const uint64_t should_be = owned == pins.end() ? 0 : owned->second;
    if (world.index[entry].pins != should_be)
      return "entry " + std::to_string(entry) + ": " +
             differ("pins", world.index[entry].pins, should_be);
  }
  if (world.index.size() != entries.size())
    return differ("pages in the index", world.index.size(), entries.size());
  return {};
}

std::string slot_of_two(const World& world) {
  std::set<SlotId> owned;
  const auto second = [&](SlotId slot) { return !owned.insert(slot).second; };
  for_bound_slots(world, [&](SlotId slot, EntryId) { owned.insert(slot); });
  for (const auto& [hash, filling] : world.fillings)
    if (second(filling->slot)) return "a filling's slot has another owner";
  for (const auto& [entry, fetch] : world.fetches)
    if (fetch->from_store && fetch->slot != kNoSlot && second(fetch->slot))
      return "a fetch's slot has another owner";
  return {};
}

std::string broken_slots(const World& world) {
  const HostPool::Usage usage = world.parts.pool->usage();
  uint64_t full = 0, filling = world.fillings.size();
  uint64_t bytes = 0;
  for_bound_slots(world, [&](SlotId, EntryId entry) {
    ++full;
    bytes += page_bytes(world, world.index[entry]);
  });
  for (const auto& [entry, fetch] : world.fetches)
    filling += fetch->from_store && fetch->slot != kNoSlot;
  const std::string twice = slot_of_two(world);
  if (!twice.empty()) return twice;
  if (usage.page_bytes != bytes) return differ("page bytes in the pool", usage.page_bytes, bytes);
  if (usage.slots_full != full) return differ("full slots", usage.slots_full, full);
  if (usage.slots_filling != filling) return differ("filling slots", usage.slots_filling, filling);
  for (const auto& [hash, filling_page] : world.fillings) {
    uint32_t copying = 0, done = 0;
    for (const Filling::Part& part : filling_page->parts) {
      copying += part.state == Filling::Part::kCopying;
      done += part.state == Filling::Part::kDone;
      if (part.state != Filling::Part::kCopying)
        for (const ItemRef& ref : part.followers)
          if (ref.item().state == ItemState::kFollowing) return "a follower follows nobody";
    }
    if (copying != filling_page->copying || done != filling_page->done)
      return "a filling has miscounted its parts";
  }
  return {};
}

std::string broken_leases(const World& world) {
  uint64_t pages = 0, bytes = 0;
  std::map<uint64_t, uint64_t> by_session;
  for (const auto& [id, lease] : world.leases) {
    pages += lease.entries.size();
    bytes += lease.bytes;
    by_session[lease.session] += lease.entries.size();
    const auto session = world.sessions.find(lease.session);
    if (session == world.sessions.end() || session->second->ended)
      return "a dead session has a lease";
  }
  if (world.lease_ends.size() != world.leases.size())
    return differ("leases that end", world.lease_ends.size(), world.leases.size());
  if (world.lease_pages != pages) return differ("leased pages", world.lease_pages, pages);
  if (world.lease_bytes != bytes) return differ("leased bytes", world.lease_bytes, bytes);
  for (const auto& [id, session] : world.sessions) {
    if (session->lease_pages != by_session[id])
      return differ("a session's leased pages", session->lease_pages, by_session[id]);
    if (session->lease_pages > world.limits.lease_pages_per_session)
      return differ("a session's leased pages", session->lease_pages,
                    world.limits.lease_pages_per_session);
  }
  return {};
}

std::string broken_writes(const World& world) {
  uint64_t bytes = 0, queued = 0;
  for_bound_slots(world, [&](SlotId slot, EntryId entry) {
    if ((world.index[entry].flags & kWriteQueued) == 0) return;
    bytes += world.parts.pool->slot_bytes(slot);
    ++queued;
  });
  if (world.write_queue_bytes != bytes)
    return differ("bytes in the write queue", world.write_queue_bytes, bytes);
  if (bytes > world.limits.write_behind_bytes)
    return differ("bytes in the write queue", bytes, world.limits.write_behind_bytes);
  if (world.write_queue.size() > 2 * queued + 64)
    return differ("entries of the write queue", world.write_queue.size(), queued);
  if (world.store_in_flight != world.store_writes.size() + world.store_reads.size())
    return differ("store operations in flight", world.store_in_flight,
                  world.store_writes.size() + world.store_reads.size());
  for (const auto& [entry, waiters] : world.durable_waiters)
    for (const ItemRef& ref : waiters)
      if (ref.item().state == ItemState::kDurable &&
          world.index.find(ref.op->hashes[ref.index]) != entry)
        return "a durable put waits for another page";
  return {};
}

std::string broken_accounts(const World& world) {
  std::map<uint32_t, uint64_t> pool, flight, regions;
  std::map<uint32_t, uint32_t> sessions;
  for_bound_slots(world, [&](SlotId slot, EntryId) {
    pool[slot_account(world, slot)] += world.parts.pool->taken_bytes(slot);
  });
  for (const auto& [hash, filling] : world.fillings)
    pool[slot_account(world, filling->slot)] += world.parts.pool->taken_bytes(filling->slot);
  for (const auto& [entry, fetch] : world.fetches)
    if (fetch->from_store && fetch->slot != kNoSlot)
      pool[slot_account(world, fetch->slot)] += world.parts.pool->taken_bytes(fetch->slot);
  for (const auto& [id, session] : world.sessions) {
    const uint32_t account = session->permissions.entry;
    uint64_t bytes = 0;
    for (const auto& [request, op] : session->ops) bytes += op->bytes;
    if (session->bytes_in_flight != bytes)
      return differ("a session's bytes in flight", session->bytes_in_flight, bytes);
    flight[account] += bytes;
    if (!session->ended) {
      ++sessions[account];
      if (session->importing == 0) regions[account] += session->region_bytes;
    }
  }
  for (const auto& [number, account] : world.accounts) {
    if (account.pool_bytes != pool[number])
      return differ("an account's pool bytes", account.pool_bytes, pool[number]);
    if (account.bytes_in_flight != flight[number])
      return differ("an account's bytes in flight", account.bytes_in_flight, flight[number]);
    if (account.sessions != sessions[number])
      return differ("an account's sessions", account.sessions, sessions[number]);
  }
  return {};
}

// What waits is never more than its limit.
std::string broken_queues(const World& world, const Scenario& plan) {
  const size_t entries = plan.node.queue_entries;
  size_t ops = 0;
  for (const auto& [id, session] : world.sessions) {
    ops += session->ops.size();
    if (session->ops.size() > session->memory.geometry.completion_cells)
      return differ("a session's operations", session->ops.size(),
                    session->memory.geometry.completion_cells);
    if (session->pending_fds.size() > kPendingFdsMax ||
        session->awaited_fds.size() > kPendingFdsMax)
      return "a session has more fds waiting than it may";
  }
  const auto parked = static_cast<size_t>(  // an answered one goes at the next turn
      std::count_if(world.parked.begin(), world.parked.end(),
                    [](const OpRef& op) { return !op->answered; }));
  if (parked > ops) return differ("parked requests", parked, ops);
  if (world.copies.size() > 2 * entries * world.parts.copy_workers.size())
    return differ("copy commands", world.copies.size(), entries);
  if (world.checks.size() > 2 * entries) return differ("checks", world.checks.size(), entries);
  if (world.store_in_flight > plan.store.queue_capacity)
    return differ("store operations", world.store_in_flight, plan.store.queue_capacity);
  return {};
}

}  // namespace

std::string broken_sum(const Counters& c) {
  const uint64_t found = c.pages_found_host.value() + c.pages_found_store.value() +
                         c.pages_found_remote.value() + c.pages_found_miss.value();
  const uint64_t put = c.pages_put_stored.value() + c.pages_put_exists.value() +
                       c.pages_put_refused.value() + c.pages_put_failed.value() +
                       c.pages_put_abandoned.value();
  const uint64_t got = c.pages_get_host.value() + c.pages_get_store.value() +
                       c.pages_get_miss.value() + c.pages_get_failed.value();
  if (c.pages_looked_up.value() != found)
    return differ("pages_looked_up", c.pages_looked_up.value(), found);
  if (c.pages_put.value() != put) return differ("pages_put", c.pages_put.value(), put);
  if (c.pages_get.value() != got) return differ("pages_get", c.pages_get.value(), got);
  return {};
}

std::string broken_invariant(testing::Node& node, const Scenario& plan) {
  const World& world = node.conductor().world();
  std::string wrong = broken_sum(world.count);
  if (wrong.empty()) wrong = broken_pins(world);
  if (wrong.empty()) wrong = broken_slots(world);
  if (wrong.empty()) wrong = broken_leases(world);
  if (wrong.empty()) wrong = broken_writes(world);
  if (wrong.empty()) wrong = broken_accounts(world);
  if (wrong.empty()) wrong = broken_queues(world, plan);
  return wrong;
}

std::string broken_rest(testing::Node& node) {
  const World& world = node.conductor().world();
  const HostPool::Usage usage = world.parts.pool->usage();
  if (usage.slots_filling != 0) return differ("filling slots", usage.slots_filling, 0);
  if (usage.slots_quarantined != 0)
    return differ("slots in quarantine", usage.slots_quarantined, 0);
  if (!world.leases.empty()) return differ("leases", world.leases.size(), 0);
  if (!world.fetches.empty()) return differ("fetches", world.fetches.size(), 0);
  if (!world.parked.empty()) return differ("parked requests", world.parked.size(), 0);
  if (!world.durable_waiters.empty())
    return differ("pages with durable waiters", world.durable_waiters.size(), 0);
  if (world.parts.store != nullptr && world.write_queue_bytes != 0)
    return differ("bytes in the write queue", world.write_queue_bytes, 0);
  if (!node.conductor().quiet()) return "something is still with a worker";
  return {};
}

std::string broken_end(testing::Node& node) {
  const World& world = node.conductor().world();
  if (!world.sessions.empty()) return differ("sessions", world.sessions.size(), 0);
  if (!world.groups.empty()) return differ("groups", world.groups.size(), 0);
  for (const auto& [number, account] : world.accounts)
    if (account.sessions != 0 || account.bytes_in_flight != 0 || account.region_bytes != 0)
      return "an account still holds sessions, bytes in flight or regions (" +
             std::to_string(account.region_bytes) + " bytes)";
  return {};
}

}  // namespace kvsidecar::sim
