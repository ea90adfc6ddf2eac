// SPDX-License-Identifier: Apache-2.0
#include "sidecar/conductor/gets.h"

#include <algorithm>

#include "sidecar/conductor/answers.h"
#include "sidecar/conductor/copies.h"
#include "sidecar/conductor/fetches.h"
#include "sidecar/conductor/slots.h"

namespace kvsidecar {
namespace {

bool needs_check(const World& world, const PageEntry& page) {
  if ((page.flags & kUnverified) != 0) return true;
  if (world.limits.verify == Verify::kAlways) return true;
  return world.limits.verify == Verify::kFirst && (page.flags & kChecked) == 0;
}

void start_item(World& world, const ItemRef& ref) {
  OpItem& item = ref.item();
  const EntryId entry = find_page(world, ref.op->hashes[ref.index]);
  if (entry == kNoEntry) return settle(world, ref, Code::kMiss);
  pin(world, entry);
  item.entry = entry;
  item.pinned = true;
  const PageEntry& page = world.index[entry];
  if (page.host_slot == kNowhere || needs_check(world, page)) {
    item.state = ItemState::kFetching;
    item.from_store = page.host_slot == kNowhere;
    return fetch(world, entry, ref.op->shape, &ref);
  }
  if (!key_matches(world, entry, ref.op->key(ref.index))) return settle(world, ref, Code::kMiss);
  item.state = ItemState::kResident;
}

}  // namespace

void start_get(World& world, const OpRef& op) {
  for (uint32_t i = 0; i < op->items.size(); ++i) start_item(world, {op, i});
  advance_get(world, op);
}

void page_resident(World& world, const ItemRef& ref) {
  OpItem& item = ref.item();
  if (item.state != ItemState::kFetching) return;
  if (!key_matches(world, item.entry, ref.op->key(ref.index)))
    settle(world, ref, Code::kMiss);
  else
    item.state = ItemState::kResident;
  advance_get(world, ref.op);
}

void advance_get(World& world, const OpRef& op) {
  if (op->answered) return;
  if (op->progress != nullptr &&
      std::any_of(op->items.begin(), op->items.end(), [](const OpItem& item) {
        return item.state == ItemState::kFetching || item.state == ItemState::kNew;
      }))
    return;
  if (!op->fence_reached()) {
    if (!op->parked) world.parked.push_back(op);
    op->parked = true;
    return;
  }
  for (uint32_t i = 0; i < op->items.size(); ++i)
    if (op->items[i].state == ItemState::kResident) make_ready(world, {op, i});
}

void page_loaded(World& world, const ItemRef& ref, const CopyItem& copied) {
  settle(world, ref, copied.status);
}

bool key_matches(const World& world, EntryId entry, Bytes key) {
  const Bytes stored = world.parts.pool->key(world.index[entry].host_slot);
  return std::equal(stored.begin(), stored.end(), key.begin(), key.end());
}

}  // namespace kvsidecar
