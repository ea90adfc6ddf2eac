// SPDX-License-Identifier: Apache-2.0
#include "sidecar/conductor/fetches.h"

#include <algorithm>

#include "sidecar/conductor/answers.h"
#include "sidecar/conductor/gets.h"
#include "sidecar/conductor/namespaces.h"
#include "sidecar/conductor/removals.h"
#include "sidecar/conductor/slots.h"
#include "sidecar/conductor/write_behind.h"
#include "sidecar/digest.h"
#include "sidecar/planted.h"

namespace kvsidecar {
namespace {

std::unique_ptr<Fetch> take(World& world, EntryId entry) {
  const auto found = world.fetches.find(entry);
  KV_CHECK(found != world.fetches.end());
  std::unique_ptr<Fetch> fetch = std::move(found->second);
  world.fetches.erase(found);
  return fetch;
}

void fail(World& world, EntryId entry, Code code) {
  const std::unique_ptr<Fetch> fetch = take(world, entry);
  if (fetch->from_store && fetch->slot != kNoSlot) give_slot(world, fetch->slot);
  for (const ItemRef& ref : fetch->waiters) {
    if (ref.item().state != ItemState::kFetching) continue;
    settle(world, ref, code);
    advance_get(world, ref.op);
  }
  unpin(world, entry);
}

void succeed(World& world, EntryId entry) {
  const std::unique_ptr<Fetch> fetch = take(world, entry);
  for (const ItemRef& ref : fetch->waiters) page_resident(world, ref);
  unpin(world, entry);
}

// This location does not hold what the index says: no other fetch may try it again, nor a restart
// find it.
void invalidate_location(World& world, EntryId entry, const StoreLocation& location) {
  PageEntry& page = world.index[entry];
  if (page.segment == kNowhere || world.segments.segment(page.segment) != location.segment ||
      page.store_slot != location.slot)
    return;
  drop_store_copy(world, entry);
  bury(world, location);
}

void corrupt(World& world, EntryId entry) {
  Fetch& fetch = *world.fetches.at(entry);
  PageEntry& page = world.index[entry];
  world.count.pages_corrupt.add();
  world.history.add(page.hash, Departure::kCorrupt, world.now_ns);
  world.log.event("page_corrupt",
                  "page=" + to_hex(page.hash) + " place=" + (fetch.from_store ? "store" : "host"));
  if (fetch.from_store) {
    world.count.store_proof_failures.add();
    invalidate_location(world, entry, fetch.location);
  } else if ((page.flags & (kUnverified | kWriting)) == kUnverified) {
    // Nobody reads bytes that were never checked: they go at once, and what the store has stays.
    cancel_write(world, entry);
    page.flags = static_cast<uint16_t>(page.flags & ~kDurable);
    settle_durable(world, entry, Code::kNotStored);
    drop_host_copy(world, entry);
  } else {
    page.flags |= kDoomed;  // its slot goes when nobody reads it any more
  }
  fail(world, entry, Code::kCorrupt);
}

void start_read(World& world, EntryId entry) {
  Fetch& fetch = *world.fetches.at(entry);
  const PageEntry& page = world.index[entry];
  fetch.from_store = true;
  fetch.location = {world.segments.segment(page.segment), page.store_slot};
  fetch.digest = page.digest;
  fetch.slot = take_slot(world, fetch.shape, 0);
  if (fetch.slot == kNoSlot) return fail(world, entry, Code::kBusy);
  StoreCommand command;
  command.op = StoreOp::kRead;
  command.prefetch = fetch.waiters.empty();
  command.token = world.new_token();
  command.location = fetch.location;
  command.page = world.parts.pool->bytes(fetch.slot);
  command.page_bytes = page_bytes(world, page);
  const uint64_t token = command.token;
  if (!world.parts.store->submit(std::move(command))) {
    world.count.busy_store_queue.add();
    return fail(world, entry, Code::kBusy);
  }
  world.segments.touch(page.segment);
  world.store_reads[token] = entry;
  ++world.store_in_flight;
}

// Its segment went and an engine has put the page again, with other bytes: what was read is right,
// and of the past.
bool is_outdated(const PageEntry& page, const Fetch& fetch) {
  return fetch.from_store && page.digest != fetch.digest;
}

// False: every hash worker's queue is full.
bool submit_check(World& world, EntryId entry) {
  const Fetch& fetch = *world.fetches.at(entry);
  const PageEntry& page = world.index[entry];
  HashCommand command;
  command.token = world.new_token();
  command.page = world.parts.pool->bytes(fetch.slot);
  command.parts = namespace_of(world, page)->fields.parts;
  command.hash = page.hash;
  command.expected = fetch.record->part_digests;
  const uint64_t token = command.token;
  const auto& workers = world.parts.hash_workers;
  for (size_t i = 0; i < workers.size(); ++i) {
    if (!workers[(token + i) % workers.size()]->submit(std::move(command))) continue;
    world.checks[token] = entry;
    return true;
  }
  return false;
}

void start_check(World& world, EntryId entry) {
  Fetch& fetch = *world.fetches.at(entry);
  const PageEntry& page = world.index[entry];
  if (namespace_of(world, page) == nullptr) return corrupt(world, entry);
  const NamespaceInfo& space = *namespace_of(world, page);
  if (is_outdated(page, fetch)) return fail(world, entry, Code::kBusy);
  const PageRecord& record = *fetch.record;
  if (record.hash != page.hash || record.digest != page.digest ||
      record.page_bytes != space.page_bytes ||
      record.part_digests.size() != space.fields.parts.size() ||
      page_digest(record.part_digests) != record.digest)
    return corrupt(world, entry);
  if (!world.checks_waiting.empty() || !submit_check(world, entry)) {
    world.count.busy_hash_queue.add();
    world.checks_waiting.push_back(entry);
  }
}

bool somebody_waits(const Fetch& fetch) {
  return std::any_of(fetch.waiters.begin(), fetch.waiters.end(), [](const ItemRef& ref) {
    return ref.item().state == ItemState::kFetching;
  });
}

// Those that waited for room, in their order. Pages that nobody waits for any more are let go: a
// later get checks them.
void retry_checks(World& world) {
  while (!world.checks_waiting.empty()) {
    const EntryId entry = world.checks_waiting.front();
    const Fetch& fetch = *world.fetches.at(entry);
    if (!fetch.from_store && !fetch.waiters.empty() && !somebody_waits(fetch)) {
      world.checks_waiting.pop_front();
      fail(world, entry, Code::kTimeout);
    } else if (submit_check(world, entry)) {
      world.checks_waiting.pop_front();
    } else {
      return;
    }
  }
}

// The page moves into the host pool with the record that came with it.
bool publish(World& world, EntryId entry, Fetch& fetch) {
  PageEntry& page = world.index[entry];
  const PageAccess access{page.hash.low, 0, 0, ++world.last_access};
  if (!world.parts.pool->publish(fetch.slot, *fetch.record, access)) {
    fetch.record->description
        .clear();  // this namespace's slots were attached with a smaller reserve
    if (!world.parts.pool->publish(fetch.slot, *fetch.record, access)) return false;
  }
  bind_slot(world, entry, fetch.slot);
  return true;
}

}  // namespace

void fetch(World& world, EntryId entry, const SlotShape& shape, const ItemRef* waiter) {
  const auto found = world.fetches.find(entry);
  if (found != world.fetches.end()) {
    if (waiter != nullptr) push_item(found->second->waiters, *waiter);
    return;
  }
  auto started = std::make_unique<Fetch>();
  started->entry = entry;
  started->shape = shape;
  if (waiter != nullptr) started->waiters.push_back(*waiter);
  pin(world, entry);
  Fetch& fetch = *(world.fetches[entry] = std::move(started));
  const PageEntry& page = world.index[entry];
  if (page.host_slot == kNowhere) return start_read(world, entry);
  fetch.slot = page.host_slot;
  Result<PageRecord> record = world.parts.pool->record(page.host_slot);
  if (!record.ok()) return corrupt(world, entry);
  fetch.record = std::make_shared<PageRecord>(record.take());
  start_check(world, entry);
}

void read_done(World& world, StoreDone&& done) {
  const auto found = world.store_reads.find(done.token);
  KV_CHECK(found != world.store_reads.end());
  const EntryId entry = found->second;
  world.store_reads.erase(found);
  --world.store_in_flight;
  world.count.store_reads.add();
  Fetch& fetch = *world.fetches.at(entry);
  if (done.status == Code::kOk) {
    world.count.bytes_read.add(page_bytes(world, world.index[entry]));
    fetch.record = std::move(done.record);
    return start_check(world, entry);
  }
  world.count.store_read_errors.add();
  if (done.status == Code::kCorrupt) return corrupt(world, entry);
  world.history.add(world.index[entry].hash, Departure::kReadFailed, world.now_ns);
  // A page that can't be read would be promised by every lookup and refused to every put.
  if (done.status == Code::kMiss || (done.status == Code::kIoError && !done.breaker_open))
    invalidate_location(world, entry, fetch.location);
  fail(world, entry, done.status);
}

namespace {

void finish_check(World& world, HashDone&& done) {
  const auto found = world.checks.find(done.token);
  KV_CHECK(found != world.checks.end());
  const EntryId entry = found->second;
  world.checks.erase(found);
  Fetch& fetch = *world.fetches.at(entry);
  const bool passes = planted(Bug::kUnprovenPage) && fetch.from_store;
  if (done.status != Code::kOk && !passes) return corrupt(world, entry);
  PageEntry& page = world.index[entry];
  if ((page.flags & kDoomed) != 0) return fail(world, entry, Code::kMiss);  // deleted meanwhile
  if (fetch.from_store) {
    if (is_outdated(page, fetch) || page.host_slot != kNowhere || !publish(world, entry, fetch))
      return fail(world, entry, Code::kBusy);
    if (fetch.waiters.empty()) world.count.pages_prefetched.add();
    fetch.slot = kNoSlot;  // the entry's now
  } else if ((page.flags & kUnverified) != 0) {
    world.count.pages_verified.add();
  }
  page.flags = static_cast<uint16_t>((page.flags & ~kUnverified) | kChecked);
  succeed(world, entry);
}

}  // namespace

void check_done(World& world, HashDone&& done) {
  finish_check(world, std::move(done));
  retry_checks(world);
}

}  // namespace kvsidecar
