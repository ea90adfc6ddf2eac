// SPDX-License-Identifier: Apache-2.0
#include "sidecar/conductor/scrub.h"

#include <algorithm>

#include "sidecar/conductor/fetches.h"

namespace kvsidecar {
namespace {

// Looking at an unbound slot costs little, at a page a miss of the cache.
constexpr int kLooksPerTurn = 2048, kLooksPerPage = 32;

size_t running_now(World& world) {
  size_t running = 0;
  for (EntryId& entry : world.scrub.running) {
    if (entry != kNoEntry && world.fetches.count(entry) == 0) entry = kNoEntry;
    running += entry != kNoEntry ? 1 : 0;
  }
  return running;
}

bool is_quiet(World& world, size_t running) {
  ScrubState& s = world.scrub;
  const uint64_t requests = world.count.requests.value();
  const bool busy = requests != s.requests || !world.copies.empty() || world.store_in_flight != 0 ||
                    world.fetches.size() > running || world.draining;
  s.requests = requests;
  if (busy || s.busy_ns == 0) s.busy_ns = world.now_ns;
  return world.now_ns - s.busy_ns >= kScrubQuietNs;
}

void start(World& world, EntryId entry) {
  EntryId* const free = std::find(world.scrub.running.begin(), world.scrub.running.end(), kNoEntry);
  KV_CHECK(free != world.scrub.running.end());
  *free = entry;
  world.count.pages_scrubbed.add();
  fetch(world, entry, {}, nullptr);
}

}  // namespace

bool scrub(World& world) {
  ScrubState& s = world.scrub;
  const HostPool& pool = *world.parts.pool;
  if (world.count.pages_adopted.value() == 0 || s.next >= pool.slots_end()) return false;
  size_t running = running_now(world);
  if (!is_quiet(world, running)) return false;
  const SlotId first = s.next;
  for (int looks = 0; looks < kLooksPerTurn && s.next < pool.slots_end(); ++looks) {
    s.next = std::min(pool.next_slot(s.next), pool.slots_end());
    if (s.next == pool.slots_end()) break;
    const EntryId entry = pool.note(s.next).entry;
    if (entry != kNoEntry) {
      looks += kLooksPerPage;
      const PageEntry& page = world.index[entry];
      const bool unchecked = (page.flags & (kUnverified | kDoomed)) == kUnverified;
      if (unchecked && running == kScrubsInFlight) break;
      if (unchecked) {
        start(world, entry);
        running = running_now(world);
      }
    }
    ++s.next;
  }
  return s.next != first;
}

}  // namespace kvsidecar
