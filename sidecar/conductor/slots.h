// SPDX-License-Identifier: Apache-2.0
// Host slots and index entries as the conductor uses them: taking a slot (evicting if need be),
// pins, and the one place where an entry goes. Conductor's thread only.
#pragma once
#include "sidecar/conductor/world.h"

namespace kvsidecar {

// A FILLING slot, or kNoSlot when everything that could go is held (counted as busy_no_slot).
SlotId take_slot(World& world, const SlotShape& shape, uint32_t account);
// Gives a slot back that belongs to no entry.
void give_slot(World& world, SlotId slot);
// Binds a slot that the pool has as FULL to an entry / takes it away from it and frees it.
void bind_slot(World& world, EntryId entry, SlotId slot);
void drop_host_copy(World& world, EntryId entry);
// The account that a slot which isn't free is charged to.
inline uint32_t slot_account(const World& world, SlotId slot) {
  return world.parts.pool->note(slot).account;
}
// Calls `look(slot, entry)` for every slot that is bound.
template <typename Look>
void for_bound_slots(const World& world, Look&& look) {
  const HostPool& pool = *world.parts.pool;
  for (SlotId slot = pool.next_slot(0); slot != kNoSlot; slot = pool.next_slot(slot + 1))
    if (const EntryId entry = pool.note(slot).entry; entry != kNoEntry) look(slot, entry);
}
// Records where the store has the page and charges it to the account that its slot is charged to.
void bind_location(World& world, EntryId entry, const StoreLocation& location, uint64_t bytes);
void drop_store_copy(World& world, EntryId entry);
bool over_store_quota(const World& world, const PageEntry& page);

void pin(World& world, EntryId entry);
void unpin(World& world, EntryId entry);  // at zero a doomed or placeless entry goes
// The entry goes if nothing holds it and its page is nowhere.
void forget_if_nowhere(World& world, EntryId entry);

// Somewhere, complete, not deleted.
inline bool visible(const PageEntry& page) {
  return (page.flags & kDoomed) == 0 && (page.host_slot != kNowhere || page.segment != kNowhere);
}
// kNoEntry unless visible.
EntryId find_page(const World& world, const Hash128& hash);
// The slot shape of a page in the pool or, for one in the store, of its namespace.
uint64_t page_bytes(const World& world, const PageEntry& page);

}  // namespace kvsidecar
