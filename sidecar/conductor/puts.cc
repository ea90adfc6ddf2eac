// SPDX-License-Identifier: Apache-2.0
#include "sidecar/conductor/puts.h"

#include <algorithm>

#include "ipc/page_origin.h"
#include "sidecar/conductor/answers.h"
#include "sidecar/conductor/copies.h"
#include "sidecar/conductor/namespaces.h"
#include "sidecar/conductor/slots.h"
#include "sidecar/conductor/write_behind.h"
#include "sidecar/digest.h"
#include "sidecar/planted.h"

namespace kvsidecar {
namespace {

bool over_pool_quota(World& world, const Operation& op) {
  const Permissions& allowed = op.session->permissions;
  if (allowed.pool_bytes_max == 0) return false;
  return world.accounts[allowed.entry].pool_bytes + op.shape.slot_bytes > allowed.pool_bytes_max;
}

// The code to refuse the item with, or kOk and a new filling.
Code begin_filling(World& world, const ItemRef& ref) {
  Operation& op = *ref.op;
  if (over_pool_quota(world, op)) return Code::kOverQuota;
  const SlotId slot = take_slot(world, op.shape, op.session->permissions.entry);
  if (slot == kNoSlot) {
    world.history.add(op.hashes[ref.index], Departure::kNoRoom, world.now_ns);
    return Code::kBusy;
  }
  auto filling = std::make_unique<Filling>();
  filling->hash = op.hashes[ref.index];
  filling->space = op.space;
  filling->generation = op.generation;
  filling->slot = slot;
  filling->parts.resize(op.space->fields.parts.size());
  filling->last_activity_ns = world.now_ns;
  const Bytes key = op.key(ref.index);
  filling->key.assign(key.begin(), key.end());
  filling->access = {op.hashes[ref.index].low, op.position + ref.index, op.prompt_pages, op.access};
  world.fillings.emplace(op.hashes[ref.index], std::move(filling));
  return Code::kOk;
}

// To be called when a copy into it ends or is about to begin.
void set_lonely(World& world, const Filling& filling, bool lonely) {
  const uint64_t bytes = world.parts.pool->slot_bytes(filling.slot);
  if (!lonely && world.lonely.erase({filling.last_activity_ns, filling.hash}) != 0)
    world.lonely_bytes -= bytes;
  if (lonely && world.lonely.insert({filling.last_activity_ns, filling.hash}).second)
    world.lonely_bytes += bytes;
}

void start_item(World& world, const ItemRef& ref) {
  Operation& op = *ref.op;
  OpItem& item = ref.item();
  if (item.state == ItemState::kSettled) return;
  const EntryId entry = world.index.find(op.hashes[ref.index]);
  if (entry != kNoEntry) {
    const PageEntry& page = world.index[entry];
    if ((page.flags & kDoomed) != 0)
      return settle(world, ref, Code::kBusy);  // deleted, still being read
    if (visible(page)) {
      item.status = Code::kExists;
      if (op.durable) return wait_durable(world, ref, entry);
      return settle(world, ref, Code::kExists);
    }
  }
  auto found = world.fillings.find(op.hashes[ref.index]);
  if (found == world.fillings.end()) {
    const Code code = begin_filling(world, ref);
    if (code != Code::kOk) return settle(world, ref, code);
    found = world.fillings.find(op.hashes[ref.index]);
  }
  Filling& filling = *found->second;
  // Another key with this hash: parts of the two must not become one page.
  const Bytes key = op.key(ref.index);
  if (!std::equal(filling.key.begin(), filling.key.end(), key.begin(), key.end()))
    return settle(world, ref, Code::kBusy);
  // A page is an imported one as soon as one part of it is.
  const Bytes description = op.description(ref.index);
  if (filling.description.empty() ||
      (!origin_of(description).empty() && origin_of(filling.description).empty()))
    filling.description.assign(description.begin(), description.end());
  Filling::Part& part = filling.parts[op.part];
  if (part.state == Filling::Part::kDone) return settle(world, ref, Code::kOkPart);
  if (part.state == Filling::Part::kCopying) {
    item.state = ItemState::kFollowing;
    push_item(part.followers, ref);
    return;
  }
  set_lonely(world, filling, false);
  part.state = Filling::Part::kCopying;
  ++filling.copying;
  make_ready(world, ref);
}

bool has_followers(const Filling& filling) {
  for (const Filling::Part& part : filling.parts)
    for (const ItemRef& ref : part.followers)
      if (ref.item().state == ItemState::kFollowing) return true;
  return false;
}

void settle_followers(World& world, Filling::Part& part, Code code) {
  const std::deque<ItemRef> followers = std::move(part.followers);
  part.followers.clear();
  for (const ItemRef& ref : followers)
    if (ref.item().state == ItemState::kFollowing) settle(world, ref, code);
}

void drop_filling(World& world, const Hash128& hash) {
  const auto found = world.fillings.find(hash);
  const std::unique_ptr<Filling> filling = std::move(found->second);
  set_lonely(world, *filling, false);
  world.fillings.erase(found);
  give_slot(world, filling->slot);
}

PageRecord record_of(const Filling& filling) {
  PageRecord record;
  record.hash = filling.hash;
  record.namespace_id = filling.space->id;
  record.generation = filling.generation;
  record.page_bytes = filling.space->page_bytes;
  for (const Filling::Part& part : filling.parts) record.part_digests.push_back(part.digest);
  record.digest = page_digest(record.part_digests);
  record.key = filling.key;
  record.description = filling.description;
  return record;
}

// Another page stands under this name already; a scan may have found it in the store meanwhile.
bool is_taken(const PageEntry& page, uint64_t digest) {
  return (page.flags & kDoomed) != 0 || page.host_slot != kNowhere ||
         (page.segment != kNowhere && page.digest != digest);
}

// The page becomes visible. kNoEntry when it can't: deleted meanwhile, or it came in another way.
EntryId complete(World& world, Filling& filling) {
  EntryId entry = world.index.find(filling.hash);
  PageRecord record = record_of(filling);
  if (entry != kNoEntry && is_taken(world.index[entry], record.digest)) return kNoEntry;
  if (!world.parts.pool->publish(filling.slot, record, filling.access)) {
    // The slot is of the first writer's shape; another one's attach may reserve more for it.
    record.description.clear();
    KV_CHECK(world.parts.pool->publish(filling.slot, record, filling.access));
  }
  if (entry == kNoEntry)
    entry = add_page_entry(world, filling.hash, record.digest, *filling.space);
  world.index[entry].digest = record.digest;
  note_origin(world.index[entry], *filling.space, filling.generation,
              !origin_of(filling.description).empty());
  bind_slot(world, entry, filling.slot);
  world.count.pages_completed.add();
  if (world.limits.admission == Admission::kAtOnce) queue_write(world, entry);
  return entry;
}

void last_part_copied(World& world, const ItemRef& ref) {
  const Hash128 hash = ref.op->hashes[ref.index];
  const auto found = world.fillings.find(hash);
  const std::unique_ptr<Filling> filling = std::move(found->second);
  world.fillings.erase(found);
  const EntryId entry = complete(world, *filling);
  if (entry == kNoEntry) {
    const EntryId other = find_page(world, hash);
    give_slot(world, filling->slot);
    ref.item().status = Code::kExists;
    if (other != kNoEntry && ref.op->durable)
      wait_durable(world, ref, other);
    else
      settle(world, ref, other != kNoEntry ? Code::kExists : Code::kBusy);
  } else if (ref.op->durable) {
    ref.item().status = Code::kOk;
    wait_durable(world, ref, entry);
  } else {
    settle(world, ref, Code::kOk);
  }
  for (Filling::Part& part : filling->parts) {
    const std::deque<ItemRef> followers = std::move(part.followers);
    for (const ItemRef& follower : followers)
      if (follower.item().state == ItemState::kFollowing) {
        follower.item().state = ItemState::kNew;
        start_item(world, follower);  // finds the page complete
      }
  }
}

}  // namespace

void start_put(World& world, const OpRef& op) {
  for (uint32_t i = 0; i < op->items.size(); ++i) start_item(world, {op, i});
}

SlotId filling_slot(const World& world, const Hash128& page) {
  return world.fillings.at(page)->slot;
}

void part_copied(World& world, const ItemRef& ref, const CopyItem& copied) {
  Filling& filling = *world.fillings.at(ref.op->hashes[ref.index]);
  if (copied.status != Code::kOk) {
    part_not_copied(world, ref);
    return settle(world, ref, copied.status);
  }
  Filling::Part& part = filling.parts[ref.op->part];
  part.state = Filling::Part::kDone;
  part.digest = copied.digest;
  --filling.copying;
  filling.last_activity_ns = world.now_ns;
  if (++filling.done == filling.parts.size() ||
      (planted(Bug::kVisibleBeforeLastPart) && filling.copying == 0))
    return last_part_copied(world, ref);
  set_lonely(world, filling, filling.copying == 0);
  settle(world, ref, Code::kOkPart);
  settle_followers(world, part, Code::kOkPart);
}

void part_not_copied(World& world, const ItemRef& ref) {
  const Hash128 hash = ref.op->hashes[ref.index];
  Filling& filling = *world.fillings.at(hash);
  Filling::Part& part = filling.parts[ref.op->part];
  part.state = Filling::Part::kEmpty;
  --filling.copying;
  while (!part.followers.empty()) {
    const ItemRef next = part.followers.front();
    part.followers.pop_front();
    if (next.item().state != ItemState::kFollowing) continue;
    part.state = Filling::Part::kCopying;
    ++filling.copying;
    return make_ready(world, next);
  }
  if (filling.copying > 0 || has_followers(filling)) return;
  if (filling.done == 0) return drop_filling(world, hash);
  set_lonely(world, filling, true);
}

void forget_parts(World& world, const Hash128& page) {
  const auto found = world.fillings.find(page);
  if (found == world.fillings.end()) return;
  Filling& filling = *found->second;
  for (Filling::Part& part : filling.parts)
    if (part.state == Filling::Part::kDone) part.state = Filling::Part::kEmpty;
  filling.done = 0;
  if (filling.copying == 0) drop_filling(world, page);
}

bool drop_loneliest(World& world) {
  if (world.lonely.empty()) return false;
  const Hash128 hash = world.lonely.begin()->second;
  world.count.pages_dropped_parts.add();
  world.history.add(hash, Departure::kPartsGaveWay, world.now_ns);
  drop_filling(world, hash);
  return true;
}

void drop_old_fillings(World& world) {
  while (!world.lonely.empty()) {
    const auto [since_ns, hash] = *world.lonely.begin();
    if (world.now_ns - since_ns <= world.limits.parts_timeout_ns) return;
    world.count.pages_dropped_parts.add();
    world.history.add(hash, Departure::kPartsTimeout, world.now_ns);
    drop_filling(world, hash);
  }
}

}  // namespace kvsidecar
