// SPDX-License-Identifier: Apache-2.0
#include "sidecar/conductor/uses.h"

#include <algorithm>

#include "sidecar/conductor/slots.h"
#include "sidecar/conductor/world.h"
#include "sidecar/conductor/write_behind.h"

namespace kvsidecar {
namespace {

constexpr uint32_t kSlice = 64;               // about a microsecond
constexpr uint64_t kShare = 64;               // of all that waits 1/64, where that is more
constexpr uint64_t kWaitingMax = 128 * 1024;  // pages: four of the longest lookups, 3 MiB
constexpr uint32_t kAhead = 8;                // pages whose lines are on their way

void use_page(World& world, EntryId entry, const PageAccess& access) {
  PageEntry& page = world.index[entry];
  if (page.host_slot != kNowhere) {
    world.parts.pool->touch(page.host_slot, access);
    if (world.limits.admission == Admission::kSecondUse && page.segment == kNowhere)
      queue_write(world, entry);
  }
  if (page.segment != kNowhere) world.segments.touch(page.segment);
}

// It may have been evicted or deleted since.
bool still_there(const World& world, const PoolUses& uses, uint32_t i) {
  const EntryId entry = uses.entries[i];
  return entry != kNoEntry && world.index[entry].hash == uses.pages[i] &&
         visible(world.index[entry]);
}

void prefetch_slot(const World& world, const PoolUses& uses, uint32_t i) {
  if (i >= uses.entries.size() || !still_there(world, uses, i)) return;
  const uint32_t slot = world.index[uses.entries[i]].host_slot;
  if (slot != kNowhere) world.parts.pool->prefetch(slot);
}

void tell(World& world, PoolUses& uses, uint32_t pages) {
  const auto total = static_cast<uint32_t>(uses.entries.size());
  const uint32_t end = uses.next + std::min(pages, total - uses.next);
  for (; uses.next < end; ++uses.next) {
    const uint32_t i = uses.next;
    prefetch_slot(world, uses, i + kAhead);
    const PageAccess access{uses.pages[i].low, i, total, uses.request};
    if (uses.entries[i] == kNoEntry)
      world.parts.pool->missed(uses.shape, access);
    else if (still_there(world, uses, i))
      use_page(world, uses.entries[i], access);
  }
}

uint32_t tell_oldest(World& world, uint32_t pages) {
  WaitingUses& waiting = world.uses;
  PoolUses& oldest = waiting.lookups.front();
  const uint32_t before = oldest.next;
  tell(world, oldest, pages);
  const uint32_t told = oldest.next - before;
  waiting.pages -= told;
  if (oldest.next == oldest.entries.size()) waiting.lookups.pop_front();
  return told;
}

}  // namespace

void note_uses(World& world, PoolUses&& uses) {
  world.uses.pages += uses.entries.size();
  world.uses.lookups.push_back(std::move(uses));
  while (world.uses.pages > kWaitingMax) tell_oldest(world, UINT32_MAX);
}

bool tell_some_uses(World& world) {
  if (world.uses.lookups.empty()) return false;
  // Pages are counted, not lookups: of short ones a turn may bring more than one, and whoever puts
  // next waits for all that is left.
  uint64_t left = std::max<uint64_t>(kSlice, world.uses.pages / kShare);
  while (left > 0 && !world.uses.lookups.empty())
    left -= tell_oldest(world, static_cast<uint32_t>(left));
  return true;
}

void tell_all_uses(World& world) {
  while (!world.uses.lookups.empty()) tell_oldest(world, UINT32_MAX);
}

}  // namespace kvsidecar
