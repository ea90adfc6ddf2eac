// SPDX-License-Identifier: Apache-2.0
// Puts: pages put together from parts, one slot a page however many write it. Conductor's thread
// only.
#pragma once
#include "sidecar/conductor/world.h"

namespace kvsidecar {

void start_put(World& world, const OpRef& op);  // its fence was reached
// The slot that a page is being put together in; the page must be in World::fillings.
SlotId filling_slot(const World& world, const Hash128& page);
void part_copied(World& world, const ItemRef& ref, const CopyItem& copied);
// A part that an item was to copy won't be: the next writer of the part takes over.
void part_not_copied(World& world, const ItemRef& ref);
// Deleted: the parts of an incomplete page that are in by now don't count.
void forget_parts(World& world, const Hash128& page);
// Pages whose other parts don't come.
void drop_old_fillings(World& world);
// The page whose parts wait longest for the others gives its slot up. False: there is none.
bool drop_loneliest(World& world);

}  // namespace kvsidecar
