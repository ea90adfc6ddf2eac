// SPDX-License-Identifier: Apache-2.0
// Gets: pages are pinned at admission, brought into host memory if they aren't there, then copied
// out. Conductor's thread only.
#pragma once
#include "sidecar/conductor/world.h"

namespace kvsidecar {

void start_get(World& world, const OpRef& op);
// The item's page is in host memory and proved; or the item has failed. Starts what can be copied
// now.
void page_resident(World& world, const ItemRef& ref);
void advance_get(World& world, const OpRef& op);
void page_loaded(World& world, const ItemRef& ref, const CopyItem& copied);
// The key that lies with the page in its slot is the one that was asked for.
bool key_matches(const World& world, EntryId entry, Bytes key);

}  // namespace kvsidecar
