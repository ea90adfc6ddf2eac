// SPDX-License-Identifier: Apache-2.0
#include "sidecar/conductor/lookups.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

#include "sidecar/conductor/answers.h"
#include "sidecar/conductor/attach.h"
#include "sidecar/conductor/fetches.h"
#include "sidecar/conductor/groups.h"
#include "sidecar/conductor/leases.h"
#include "sidecar/conductor/slots.h"
#include "sidecar/conductor/uses.h"

namespace kvsidecar {
namespace {

constexpr size_t kChainEndsMax = 64;
constexpr auto kMissed = static_cast<uint8_t>(Place::kMiss);

struct Found {
  const Attachment* attachment;
  std::vector<Hash128> pages;
  std::vector<EntryId> entries;
  std::vector<Place> places;
};

Place place_of(const PageEntry& page) {
  return page.host_slot != kNowhere ? Place::kHost : Place::kStore;
}

void count_places(Counters& count, const std::vector<Place>& places) {
  uint64_t of[4] = {};
  for (const Place place : places) ++of[static_cast<size_t>(place)];
  count.pages_looked_up.add(places.size());
  count.pages_found_host.add(of[static_cast<size_t>(Place::kHost)]);
  count.pages_found_store.add(of[static_cast<size_t>(Place::kStore)]);
  count.pages_found_remote.add(of[static_cast<size_t>(Place::kRemote)]);
  count.pages_found_miss.add(of[static_cast<size_t>(Place::kMiss)]);
}

Found find_in_pool(World& world, const Attachment& attachment, const LookupAssembly& lookup) {
  Found found{&attachment, {}, {}, {}};
  found.pages.reserve(lookup.total);
  const Bytes keys(lookup.keys);
  for (uint32_t i = 0; i < lookup.total; ++i)
    found.pages.push_back(page_hash(attachment.space->id, attachment.generation,
                                    keys.subspan(size_t{i} * lookup.key_bytes, lookup.key_bytes)));
  found.entries.resize(lookup.total);
  world.index.find(found.pages, found.entries);
  found.places.resize(lookup.total, Place::kMiss);
  for (uint32_t i = 0; i < lookup.total; ++i) {
    EntryId& entry = found.entries[i];
    if (entry == kNoEntry) continue;
    const PageEntry& page = world.index[entry];
    if (visible(page))
      found.places[i] = place_of(page);
    else
      entry = kNoEntry;
  }
  count_places(world.count, found.places);
  return found;
}

// Where the put of what is missing will begin: it is the same use of the prompt.
void remember_chain_end(Session& session, const Found& found, uint64_t access) {
  const auto missing = std::find(found.entries.begin(), found.entries.end(), kNoEntry);
  if (missing == found.entries.end()) return;
  const auto position = static_cast<uint32_t>(missing - found.entries.begin());
  session.chain_ends.push_back({found.pages[position].low, position, access});
  if (session.chain_ends.size() > kChainEndsMax) session.chain_ends.pop_front();
}

// The pages that restoring the longest prefix needs, of all pools.
std::vector<EntryId> needed_pages(const std::vector<Found>& pools,
                                  const std::vector<PoolPresence>& policies, uint32_t longest) {
  std::vector<EntryId> needed;
  for (size_t p = 0; p < pools.size(); ++p) {
    const bool all = policies[p].policy == HitPolicy::kAllPages;
    const uint32_t first = all || policies[p].pages >= longest ? 0 : longest - policies[p].pages;
    needed.insert(needed.end(), pools[p].entries.begin() + first,
                  pools[p].entries.begin() + longest);
  }
  return needed;
}

// Per key: the farthest place over the pools that need every page, a miss if one of them misses it.
void fill_places(const std::vector<Found>& pools, const std::vector<PoolPresence>& policies,
                 LookupAnswer& answer) {
  answer.places.assign(answer.keys, static_cast<uint8_t>(Place::kHost));
  const bool any_all = std::any_of(policies.begin(), policies.end(), [](const PoolPresence& p) {
    return p.policy == HitPolicy::kAllPages;
  });
  for (size_t p = 0; p < pools.size(); ++p) {
    if (any_all && policies[p].policy != HitPolicy::kAllPages) continue;
    for (uint32_t i = 0; i < answer.keys; ++i) {
      const auto found = static_cast<uint8_t>(pools[p].places[i]);
      uint8_t& place = answer.places[i];
      place = found == kMissed || place == kMissed ? kMissed : std::max(place, found);
    }
  }
}

// Fetching takes slots, which evicts: the pages are pinned meanwhile.
void prefetch(World& world, const std::vector<EntryId>& needed,
              const std::vector<const Attachment*>& attachments) {
  for (const EntryId entry : needed) pin(world, entry);
  for (const EntryId entry : needed) {
    const PageEntry& page = world.index[entry];
    if (page.host_slot != kNowhere || page.segment == kNowhere) continue;
    for (const Attachment* attachment : attachments)
      if (attachment->space->number == page.namespace_number) {
        fetch(world, entry, attachment->shape, nullptr);
        break;
      }
  }
  for (const EntryId entry : needed) unpin(world, entry);
}

// The lease and the prefetch that were asked for.
void hold(World& world, Session& session, const LookupAssembly& lookup,
          const std::vector<const Attachment*>& attachments, const std::vector<EntryId>& needed,
          LookupAnswer& answer) {
  if (lookup.lease_ms != 0 && !needed.empty()) {
    answer.lease = grant_lease(world, session, needed, lookup.lease_ms);
    answer.lease_capped = answer.lease == 0;
  }
  if (lookup.prefetch && !answer.lease_capped) prefetch(world, needed, attachments);
}

LookupAnswer look_up(World& world, Session& session, const LookupAssembly& lookup,
                     const std::vector<const Attachment*>& attachments) {
  const uint64_t access = ++world.last_access;
  session.charge(uint64_t{lookup.total} * attachments.size(), lookup.keys.size());
  std::vector<Found> pools;
  std::vector<PoolPresence> policies;
  for (size_t p = 0; p < attachments.size(); ++p) {
    pools.push_back(find_in_pool(world, *attachments[p], lookup));
    PoolPresence presence{lookup.pools[p].policy, lookup.pools[p].pages, {}};
    presence.present.resize(lookup.total);
    for (uint32_t i = 0; i < lookup.total; ++i)
      presence.present[i] = pools.back().places[i] != Place::kMiss;
    policies.push_back(std::move(presence));
    remember_chain_end(session, pools.back(), access);
  }
  LookupAnswer answer;
  answer.keys = lookup.total;
  answer.longest = restorable_prefixes(policies, lookup.total, answer.restorable);
  fill_places(pools, policies, answer);
  if (lookup.lease_ms != 0 || lookup.prefetch)
    hold(world, session, lookup, attachments, needed_pages(pools, policies, answer.longest),
         answer);
  for (Found& found : pools)
    note_uses(world, {found.attachment->shape, access, std::move(found.pages),
                      std::move(found.entries)});
  return answer;
}

uint64_t hash_of(const LookupAssembly& lookup, const std::vector<const Attachment*>& attachments) {
  uint64_t hash = XXH3_64bits_withSeed(lookup.keys.data(), lookup.keys.size(), lookup.total);
  for (size_t p = 0; p < attachments.size(); ++p) {
    const uint64_t words[5] = {
        attachments[p]->space->id.low, attachments[p]->space->id.high, attachments[p]->generation,
        static_cast<uint64_t>(lookup.pools[p].policy), lookup.pools[p].pages};
    hash = XXH3_64bits_withSeed(words, sizeof words, hash);
  }
  return hash;
}

void send_answer(World& world, Session& session, const LookupAssembly& lookup,
                 const LookupAnswer& answer) {
  uint32_t offset = 0;
  for (size_t cell = 0; cell < lookup.cells.size(); ++cell) {
    const uint32_t keys = lookup.cells[cell];
    std::vector<std::byte> payload((keys + 7) / 8 + keys, std::byte{0});
    for (uint32_t i = 0; i < keys; ++i) {
      const uint32_t key = offset + i;
      if ((answer.restorable[key / 8] >> (key % 8) & 1) != 0)
        payload[i / 8] |= static_cast<std::byte>(1u << (i % 8));
      payload[(keys + 7) / 8 + i] = static_cast<std::byte>(answer.places[key]);
    }
    CompletionHead head{};
    head.request = lookup.request;
    head.type = static_cast<uint8_t>(RecordType::kLookup);
    head.cell = static_cast<uint16_t>(cell);
    head.cells = static_cast<uint16_t>(lookup.cells.size());
    head.flags = answer.lease_capped ? kCompletionLeaseCapped : uint16_t{0};
    head.items = keys;
    head.handle = answer.lease;
    head.value = answer.longest;
    head.received_ns = lookup.received_ns;
    push_cell(world, session, head, payload);
    offset += keys;
  }
  world.count.lookups.add();
}

void answer_lookup(World& world, Session& session, const LookupAssembly& lookup) {
  RecordHead head{};
  head.request = lookup.request;
  head.type = static_cast<uint16_t>(RecordType::kLookup);
  const auto refused = [&](const Status& status) {
    refuse(world, session, head, lookup.received_ns, status,
           static_cast<uint32_t>(lookup.cells.size()));
  };
  if (!session.permissions.read)
    return refused({Code::kDenied, "lookup: this peer's [[allow]] entry doesn't list read"});
  std::vector<const Attachment*> attachments;
  for (const PoolPolicy& pool : lookup.pools) {
    const auto same = [&](const PoolPolicy& p) {
      return p.namespace_handle == pool.namespace_handle;
    };
    if (std::count_if(lookup.pools.begin(), lookup.pools.end(), same) != 1)
      return refused(invalid("pools: namespace " + std::to_string(pool.namespace_handle) +
                             " is named twice; name each pool once"));
    Result<Attachment*> attachment = find_attachment(world, session, pool.namespace_handle);
    if (!attachment.ok()) return refused(attachment.status());
    attachments.push_back(*attachment);
  }
  if (lookup.ticket == 0)
    return send_answer(world, session, lookup, look_up(world, session, lookup, attachments));
  if (session.group == nullptr)
    return refused(
        invalid("ticket " + std::to_string(lookup.ticket) + " needs a group; attach with one"));
  const uint64_t hash = hash_of(lookup, attachments);
  const Result<const LookupAnswer*> kept = ticket_answer(world, session, lookup.ticket, hash);
  if (!kept.ok()) return refused(kept.status());
  if (*kept != nullptr) return send_answer(world, session, lookup, **kept);
  if (!has_ticket_room(session))
    return refused({Code::kBusy, "ticket " + std::to_string(lookup.ticket) +
                                     ": the group's tickets are used up; let every rank ask under "
                                     "those that are open"});
  const LookupAnswer answer = look_up(world, session, lookup, attachments);
  keep_answer(world, session, lookup.ticket, hash, answer, lookup.deadline_ns);
  send_answer(world, session, lookup, answer);
}

}  // namespace

bool take_lookup(World& world, Session& session, const RecordHead& head,
                 const LookupRequest& request) {
  if (!session.lookup.has_value()) {
    if (request.offset != 0) return false;
    LookupAssembly& fresh = session.lookup.emplace();
    fresh.request = head.request;
    fresh.deadline_ns = head.deadline_ns;
    fresh.received_ns = world.now_ns;
    fresh.ticket = request.ticket;
    fresh.key_bytes = request.keys.key_bytes;
    fresh.total = request.total;
    fresh.lease_ms = request.lease_ms;
    fresh.prefetch = request.prefetch;
    fresh.pools.assign(request.pools.begin(), request.pools.end());
  }
  LookupAssembly& lookup = *session.lookup;
  const uint64_t so_far = lookup.keys.size() / lookup.key_bytes;
  if (lookup.request != head.request || lookup.key_bytes != request.keys.key_bytes ||
      lookup.total != request.total || request.offset != so_far)
    return false;
  lookup.keys.insert(lookup.keys.end(), request.keys.bytes.begin(), request.keys.bytes.end());
  lookup.cells.push_back(request.keys.count());
  if (lookup.cells.size() > session.memory.geometry.completion_cells) return false;  // unanswerable
  if (so_far + request.keys.count() < lookup.total) return true;
  const LookupAssembly whole = std::move(*session.lookup);
  session.lookup.reset();
  answer_lookup(world, session, whole);
  return true;
}

}  // namespace kvsidecar
