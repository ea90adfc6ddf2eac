// SPDX-License-Identifier: Apache-2.0
#include "sidecar/conductor/write_behind.h"

#include <algorithm>
#include <unordered_set>

#include "sidecar/conductor/answers.h"
#include "sidecar/conductor/namespaces.h"
#include "sidecar/conductor/removals.h"
#include "sidecar/conductor/slots.h"

namespace kvsidecar {
namespace {

constexpr size_t kReappendedShare =
    8;  // at most 1/8 of an unlinked segment's pages are written again
constexpr size_t kStaleWritesMax = 32;
constexpr uint64_t kYieldNs = 20'000'000;

bool still_queued(const World& world, const QueuedWrite& write) {
  const EntryId entry = world.index.find(write.hash);
  return entry == write.entry && (world.index[entry].flags & kWriteQueued) != 0;
}

// The coldest queued write that isn't durable makes room.
bool drop_coldest(World& world) {
  for (size_t i = 0; i < world.write_queue.size(); ++i) {
    const QueuedWrite write = world.write_queue[i];
    const bool queued = still_queued(world, write);
    if (queued && (world.index[write.entry].flags & kDurable) != 0) continue;
    world.write_queue.erase(world.write_queue.begin() + static_cast<ptrdiff_t>(i));
    if (!queued) return true;
    cancel_write(world, write.entry);
    world.count.writes_dropped_full.add();
    world.history.add(write.hash, Departure::kWriteDropped, world.now_ns);
    return true;
  }
  return false;
}

// Stale and doubled entries of the queue go, so that it is as bounded as the pages that wait.
void compact_queue(World& world) {
  if (world.write_queue.size() <= 2 * world.writes_queued + kStaleWritesMax) return;
  std::unordered_set<EntryId> seen;
  std::erase_if(world.write_queue, [&](const QueuedWrite& write) {
    return !still_queued(world, write) || !seen.insert(write.entry).second;
  });
}

// What is already written, or was written without it, must still reach the disk.
bool flush_for(World& world, EntryId entry) {
  StoreCommand command;
  command.op = StoreOp::kFlush;
  command.token = world.new_token();
  const uint64_t token = command.token;
  if (!world.parts.store->submit(std::move(command))) {
    world.count.busy_store_queue.add();
    return false;
  }
  pin(world, entry);
  world.store_flushes[token] = entry;
  return true;
}

double tokens_now(World& world) {
  const uint64_t rate = world.limits.write_bytes_per_s;
  const double passed_s = static_cast<double>(world.now_ns - world.write_tokens_ns) / 1e9;
  world.write_tokens_ns = world.now_ns;
  world.write_tokens_bytes =
      std::min(world.write_tokens_bytes + passed_s * static_cast<double>(rate),
               static_cast<double>(rate));  // one second's worth at most
  return world.write_tokens_bytes;
}

// A segment that writes in flight may land in stays: its unlinking would take them along, after
// they were called stored.
void write_begins(World& world, uint32_t space) {
  World::Writer& writer = world.writers[space];
  ++writer.writes;
  world.segments.set_open(writer.segment, true);
}

void write_ends(World& world, uint32_t space, uint64_t segment) {
  World::Writer& writer = world.writers[space];
  --writer.writes;
  if (segment != 0 && segment != writer.segment) {
    world.segments.set_open(writer.segment, false);
    writer.segment = segment;
  }
  world.segments.set_open(writer.segment, writer.writes > 0);
}

// Both take the node's memory bandwidth, on a node without a GPU its cores too, and somebody waits
// for the copies. A node that never stops copying writes all the same, that much later.
bool yields_to_copies(const World& world, const QueuedWrite& write) {
  return world.durable_waiters.empty() && world.now_ns - write.queued_ns < kYieldNs &&
         std::any_of(world.worker_bytes.begin(), world.worker_bytes.end(),
                     [](uint64_t bytes) { return bytes > 0; });
}

bool start_write(World& world, EntryId entry) {
  PageEntry& page = world.index[entry];
  // Deleted while somebody held it: written, it would come back with the next start unless its
  // tombstone got there first.
  const bool deleted = (page.flags & kDoomed) != 0;
  const bool over_quota = !deleted && over_store_quota(world, page);
  if (over_quota) world.count.writes_dropped_quota.add();
  Result<PageRecord> record = world.parts.pool->record(page.host_slot);
  const NamespaceInfo* const space = namespace_of(world, page);
  if (deleted || over_quota || !record.ok() || space == nullptr) {
    cancel_write(world, entry);
    page.flags = static_cast<uint16_t>(page.flags & ~kDurable);
    settle_durable(world, entry, Code::kNotStored);
    return true;
  }
  StoreCommand command;
  command.op = StoreOp::kWrite;
  command.token = world.new_token();
  command.durable = (page.flags & kDurable) != 0;
  command.space = space;  // stays: its page is pinned
  command.page_bytes = record->page_bytes;
  command.page = world.parts.pool->bytes(page.host_slot);
  command.record = std::make_shared<const PageRecord>(record.take());
  const uint64_t token = command.token;
  if (!world.parts.store->submit(std::move(command))) {
    world.count.busy_store_queue.add();
    return false;
  }
  cancel_write(world, entry);
  page.flags |= kWriting;
  world.accounts[slot_account(world, page.host_slot)].writing_bytes += page_bytes(world, page);
  pin(world, entry);
  world.store_writes[token] = {entry, (page.flags & kDurable) != 0};
  write_begins(world, page.namespace_number);
  ++world.store_in_flight;
  return true;
}

// A scan reads what is being written too, and may tell of it first.
bool lies_at(const World& world, const PageEntry& page, const StoreLocation& location) {
  return page.segment != kNowhere && world.segments.segment(page.segment) == location.segment &&
         page.store_slot == location.slot;
}

// The files are the measure: they hold more than the pages that are known. One unlink at a time,
// for what it gives back shows only when it is done.
bool over_capacity(const World& world) {
  if (world.segments.over_capacity()) return true;
  const Store& store = *world.parts.store;
  return world.unlinks_away == 0 && world.unlinks_waiting.empty() &&
         world.now_ns >= world.trim_again_ns &&
         store.used_bytes() + store.wanted_bytes() > world.limits.store_capacity_bytes;
}

// The segment that a namespace's last write went to stays: the next will go there too.
void unlink_dead(World& world) {
  const auto written_to = [&world](uint64_t segment) {
    return std::any_of(world.writers.begin(), world.writers.end(),
                       [&](const auto& writer) { return writer.second.segment == segment; });
  };
  for (;;) {
    const uint32_t dead = world.segments.dead(written_to);
    if (dead == kNowhere) return;
    const uint64_t segment = world.segments.segment(dead);
    world.segments.erase(dead);
    world.count.segments_unlinked.add();
    unlink_segment(world, segment);
  }
}

}  // namespace

void settle_durable(World& world, EntryId entry, Code code) {
  const auto waiters = world.durable_waiters.find(entry);
  if (waiters == world.durable_waiters.end()) return;
  const std::vector<ItemRef> refs = std::move(waiters->second);
  world.durable_waiters.erase(waiters);
  for (const ItemRef& ref : refs) {
    if (ref.item().state != ItemState::kDurable) continue;
    if (code == Code::kNotStored) world.count.not_stored.add();
    settle(world, ref, code == Code::kOk ? ref.item().status : code);
  }
}

bool queue_write(World& world, EntryId entry) {
  if (world.parts.store == nullptr) return false;
  PageEntry& page = world.index[entry];
  if ((page.flags & (kWriteQueued | kWriting)) != 0) return true;
  if (page.segment != kNowhere || page.host_slot == kNowhere) return page.segment != kNowhere;
  const uint64_t bytes = world.parts.pool->slot_bytes(page.host_slot);
  while (world.write_queue_bytes + bytes > world.limits.write_behind_bytes)
    if (!drop_coldest(world)) return false;
  page.flags |= kWriteQueued;
  world.write_queue.push_back({entry, page.hash, bytes, world.now_ns});
  world.write_queue_bytes += bytes;
  ++world.writes_queued;
  world.count.writes_queued.add();
  compact_queue(world);
  return true;
}

void cancel_write(World& world, EntryId entry) {
  PageEntry& page = world.index[entry];
  if ((page.flags & kWriteQueued) == 0) return;
  page.flags = static_cast<uint16_t>(page.flags & ~kWriteQueued);
  world.write_queue_bytes -= world.parts.pool->slot_bytes(page.host_slot);
  --world.writes_queued;
}

bool start_writes(World& world) {
  bool started = false;
  while (!world.write_queue.empty() && world.store_in_flight < world.limits.store_depth) {
    const QueuedWrite write = world.write_queue.front();
    if (!still_queued(world, write)) {
      world.write_queue.pop_front();
      continue;
    }
    if (yields_to_copies(world, write)) break;
    const bool limited = world.limits.write_bytes_per_s != 0;
    if (limited && tokens_now(world) <= 0) break;
    if (!start_write(world, write.entry)) break;
    if (limited) world.write_tokens_bytes -= static_cast<double>(write.bytes);
    world.write_queue.pop_front();
    started = true;
  }
  return started;
}

void write_done(World& world, StoreDone&& done) {
  const auto found = world.store_writes.find(done.token);
  KV_CHECK(found != world.store_writes.end());
  const auto [entry, durable] = found->second;
  world.store_writes.erase(found);
  --world.store_in_flight;
  PageEntry& page = world.index[entry];
  page.flags = static_cast<uint16_t>(page.flags & ~(kWriting | kDurable));
  world.accounts[slot_account(world, page.host_slot)].writing_bytes -= page_bytes(world, page);
  if (done.status == Code::kOk) {
    world.count.writes_done.add();
    world.count.bytes_written.add(page_bytes(world, page));
    const bool doomed = (page.flags & kDoomed) != 0;
    if (!doomed && page.segment == kNowhere)
      bind_location(world, entry, done.location, done.slot_bytes);
    else if (doomed || !lies_at(world, page, done.location))
      bury_surely(world, done.location);  // it lost interest while it was written
  } else {
    world.count.writes_failed.add();
    world.log.event("write_failed",
                    "page=" + to_hex(page.hash) + " status=" + std::string(code_name(done.status)));
    world.history.add(page.hash, Departure::kWriteFailed, world.now_ns);
  }
  write_ends(world, page.namespace_number, done.location.segment);
  const bool flushing = done.status == Code::kOk && !durable &&
                        world.durable_waiters.count(entry) != 0 && flush_for(world, entry);
  if (!flushing)
    settle_durable(world, entry,
                   durable && done.status == Code::kOk ? Code::kOk : Code::kNotStored);
  unpin(world, entry);
  trim_store(world);
}

void flush_done(World& world, const StoreDone& done) {
  const auto found = world.store_flushes.find(done.token);
  KV_CHECK(found != world.store_flushes.end());
  const EntryId entry = found->second;
  world.store_flushes.erase(found);
  settle_durable(world, entry, done.status == Code::kOk ? Code::kOk : Code::kNotStored);
  unpin(world, entry);
}

void wait_durable(World& world, const ItemRef& ref, EntryId entry) {
  PageEntry& page = world.index[entry];
  OpItem& item = ref.item();
  const bool stored = page.segment != kNowhere;
  const bool late = ref.op->deadline_ns <= world.now_ns;  // nobody would look at it again
  const uint16_t before = page.flags;
  if (!stored && !late) page.flags |= kDurable;
  const bool waits = stored ? !late && flush_for(world, entry) : queue_write(world, entry);
  if (!waits || late) {
    page.flags = static_cast<uint16_t>((page.flags & ~kDurable) | (before & kDurable));
    world.count.not_stored.add();
    return settle(world, ref, Code::kNotStored);
  }
  item.state = ItemState::kDurable;
  push_item(world.durable_waiters[entry], ref);
}

void found_in_store(World& world, EntryId entry) {
  cancel_write(world, entry);
  PageEntry& page = world.index[entry];
  if ((page.flags & kWriting) != 0) return;  // the end of that write settles it
  page.flags = static_cast<uint16_t>(page.flags & ~kDurable);
  if (world.durable_waiters.count(entry) != 0 && !flush_for(world, entry))
    settle_durable(world, entry, Code::kNotStored);
}

void trim_store(World& world) {
  unlink_dead(world);
  while (over_capacity(world)) {
    const uint32_t victim = world.segments.victim();
    if (victim == kNowhere) return;
    const uint64_t segment = world.segments.segment(victim);
    const std::vector<EntryId> entries = world.segments.entries(victim);
    size_t reappended = 0;
    for (const EntryId entry : entries) {
      if (entry == kNoEntry) continue;
      PageEntry& page = world.index[entry];
      drop_store_copy(world, entry);
      const bool hot = page.host_slot != kNowhere && page.pins == 0 &&
                       reappended < entries.size() / kReappendedShare;
      if (hot && queue_write(world, entry)) ++reappended;
      if (page.host_slot == kNowhere)
        world.history.add(page.hash, Departure::kSegmentUnlinked, world.now_ns);
      forget_if_nowhere(world, entry);
    }
    world.segments.erase(victim);
    world.count.segments_unlinked.add();
    unlink_segment(world, segment);
  }
}

}  // namespace kvsidecar
