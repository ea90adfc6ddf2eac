// SPDX-License-Identifier: Apache-2.0
#include "sidecar/conductor/slots.h"

#include "sidecar/conductor/namespaces.h"
#include "sidecar/conductor/puts.h"
#include "sidecar/conductor/uses.h"
#include "sidecar/conductor/write_behind.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kLonelyShare = 4;   // 1/4
constexpr int kPartsPerSlot = 64;      // dropped at most, for one slot
constexpr int kWritesPerReclaim = 16;  // at_eviction: a reclaim may offer a thousand slots

void evict(World& world, SlotId slot) {
  const EntryId entry = world.parts.pool->note(slot).entry;
  PageEntry& page = world.index[entry];
  world.count.pages_evicted.add();
  const bool stored = page.segment != kNowhere;
  world.history.add(page.hash, stored ? Departure::kEvicted : Departure::kEvictedUnwritten,
                    world.now_ns);
  if ((page.flags & kWriteQueued) != 0) {
    cancel_write(world, entry);
    world.count.writes_dropped_evicted.add();
  }
  drop_host_copy(world, entry);
  forget_if_nowhere(world, entry);
}

// Leased pages and pages in flight are pinned; durable ones wait for the store.
bool may_go(const World& world, SlotId slot) {
  const EntryId entry = world.parts.pool->note(slot).entry;
  if (entry == kNoEntry) return false;
  const PageEntry& page = world.index[entry];
  return page.pins == 0 && (page.flags & (kWriting | kDurable)) == 0;
}

bool reclaim(World& world, const SlotShape& shape) {
  const auto evict_slot = [&world](SlotId slot) { evict(world, slot); };
  if (world.limits.admission == Admission::kAtEviction && world.parts.store != nullptr) {
    // Pages that were never written get their chance first: they are queued and stay this time.
    int queued = 0;
    const auto written = [&world, &queued](SlotId slot) {
      if (!may_go(world, slot)) return false;
      const EntryId entry = world.parts.pool->note(slot).entry;
      const PageEntry& page = world.index[entry];
      if (page.segment != kNowhere) return true;
      const bool queue = (page.flags & kWriteQueued) == 0 && queued < kWritesPerReclaim;
      if (queue && queue_write(world, entry)) ++queued;
      return false;
    };
    if (world.parts.pool->reclaim(shape, written, evict_slot)) return true;
  }
  return world.parts.pool->reclaim(
      shape, [&world](SlotId slot) { return may_go(world, slot); }, evict_slot);
}

// Beyond a share of the pool parts that wait for others go before complete pages do; else only when
// no page can go.
SlotId find_slot(World& world, const SlotShape& shape) {
  HostPool& pool = *world.parts.pool;
  SlotId slot = pool.allocate(shape);
  int drops = kPartsPerSlot;
  while (slot == kNoSlot && world.lonely_bytes > pool.usage().bytes / kLonelyShare &&
         drops-- > 0 && drop_loneliest(world))
    slot = pool.allocate(shape);
  if (slot == kNoSlot && reclaim(world, shape)) slot = pool.allocate(shape);
  while (slot == kNoSlot && drops-- > 0 && drop_loneliest(world)) {
    slot = pool.allocate(shape);
    if (slot == kNoSlot && reclaim(world, shape)) slot = pool.allocate(shape);
  }
  return slot;
}

}  // namespace

SlotId take_slot(World& world, const SlotShape& shape, uint32_t account) {
  tell_all_uses(world);
  SlotId slot = find_slot(world, shape);
  if (slot == kNoSlot) {
    world.count.busy_no_slot.add();
    return kNoSlot;
  }
  world.parts.pool->set_note(slot, {kNoEntry, account});
  world.accounts[account].pool_bytes += world.parts.pool->taken_bytes(slot);
  return slot;
}

void give_slot(World& world, SlotId slot) {
  Account& account = world.accounts[slot_account(world, slot)];
  const uint64_t bytes = world.parts.pool->taken_bytes(slot);
  account.pool_bytes -= bytes < account.pool_bytes ? bytes : account.pool_bytes;
  world.parts.pool->release(slot);
}

void bind_slot(World& world, EntryId entry, SlotId slot) {
  world.parts.pool->set_note(slot, {entry, slot_account(world, slot)});
  world.index[entry].host_slot = slot;
}

void drop_host_copy(World& world, EntryId entry) {
  PageEntry& page = world.index[entry];
  if (page.host_slot == kNowhere) return;
  const SlotId slot = page.host_slot;
  page.host_slot = kNowhere;
  page.flags = static_cast<uint16_t>(page.flags & ~(kUnverified | kChecked));
  give_slot(world, slot);
}

void bind_location(World& world, EntryId entry, const StoreLocation& location, uint64_t bytes) {
  PageEntry& page = world.index[entry];
  page.segment = world.segments.number(location.segment);
  page.store_slot = location.slot;
  world.segments.add(location, entry, bytes);
  const uint32_t account = page.host_slot != kNowhere ? slot_account(world, page.host_slot) : 0;
  page.store_account = static_cast<uint16_t>(account);
  world.accounts[account].store_bytes += page_bytes(world, page);
}

void drop_store_copy(World& world, EntryId entry) {
  PageEntry& page = world.index[entry];
  if (page.segment == kNowhere) return;
  world.segments.remove(page.segment, page.store_slot);
  page.segment = kNowhere;
  world.accounts[page.store_account].store_bytes -= page_bytes(world, page);
}

bool over_store_quota(const World& world, const PageEntry& page) {
  const auto account = world.accounts.find(slot_account(world, page.host_slot));
  if (account == world.accounts.end() || account->second.store_bytes_max == 0) return false;
  return account->second.store_bytes + account->second.writing_bytes + page_bytes(world, page) >
         account->second.store_bytes_max;
}

void pin(World& world, EntryId entry) {
  PageEntry& page = world.index[entry];
  KV_CHECK(page.pins != UINT32_MAX);  // far above what credits and lease caps allow
  ++page.pins;
}

void unpin(World& world, EntryId entry) {
  PageEntry& page = world.index[entry];
  KV_CHECK(page.pins > 0);
  if (--page.pins == 0) forget_if_nowhere(world, entry);
}

void forget_if_nowhere(World& world, EntryId entry) {
  PageEntry& page = world.index[entry];
  if (page.pins != 0) return;
  if ((page.flags & kDoomed) != 0) {
    if ((page.flags & kWriteQueued) != 0) cancel_write(world, entry);
    drop_host_copy(world, entry);
    drop_store_copy(world, entry);
  }
  if (page.host_slot != kNowhere || page.segment != kNowhere) return;
  settle_durable(world, entry, Code::kNotStored);  // deleted while it waited for the store
  if (NamespaceInfo* const space = namespace_of(world, page)) --space->pages;
  world.index.erase(entry);
}

EntryId find_page(const World& world, const Hash128& hash) {
  const EntryId entry = world.index.find(hash);
  return entry != kNoEntry && visible(world.index[entry]) ? entry : kNoEntry;
}

uint64_t page_bytes(const World& world, const PageEntry& page) {
  if (const NamespaceInfo* const space = namespace_of(world, page)) return space->page_bytes;
  return page.host_slot != kNowhere ? world.parts.pool->slot_bytes(page.host_slot) : 0;
}

}  // namespace kvsidecar
