// SPDX-License-Identifier: Apache-2.0
#include "sidecar/conductor/warm_start.h"

#include "ipc/page_origin.h"
#include "sidecar/conductor/namespaces.h"
#include "sidecar/conductor/removals.h"
#include "sidecar/conductor/slots.h"
#include "sidecar/conductor/write_behind.h"

namespace kvsidecar {
namespace {

// A slot that nobody can ask for is given back: its namespace is not known, it was cleared, or
// another slot already holds the page.
void adopt_slot(World& world, SlotId slot, PageRecord&& record) {
  const auto space = world.namespaces.find(record.namespace_id);
  if (space == world.namespaces.end() || record.generation != space->second->generation ||
      record.page_bytes != space->second->page_bytes)
    return world.parts.pool->release(slot);
  EntryId entry = world.index.find(record.hash);
  if (entry != kNoEntry &&
      (world.index[entry].host_slot != kNowhere || (world.index[entry].flags & kDoomed) != 0 ||
       world.index[entry].digest != record.digest))
    return world.parts.pool->release(slot);
  if (entry == kNoEntry)
    entry = add_page_entry(world, record.hash, record.digest, *space->second);
  PageEntry& page = world.index[entry];
  page.flags |= kUnverified;
  note_origin(page, *space->second, record.generation, !origin_of(record.description).empty());
  bind_slot(world, entry, slot);
  world.accounts[0].pool_bytes += world.parts.pool->taken_bytes(slot);
  world.count.pages_adopted.add();
}

bool add_page(World& world, const FoundSegment& segment, NamespaceInfo& space,
              const FoundPage& found) {
  if (found.page_bytes != space.page_bytes) return false;
  EntryId entry = world.index.find(found.hash);
  if (entry == kNoEntry) entry = add_page_entry(world, found.hash, found.digest, space);
  PageEntry& page = world.index[entry];
  if (page.segment != kNowhere || page.digest != found.digest)
    return false;  // written twice: the first one stands
  bind_location(world, entry, {segment.segment, found.slot}, 0);  // scan_done counts them at once
  note_origin(page, space, segment.generation, found.imported);
  found_in_store(world, entry);
  world.count.pages_scanned.add();
  return true;
}

// Told before: its write has ended, or an earlier mount's directories were read.
bool is_known_there(const World& world, const FoundSegment& segment, const FoundPage& found) {
  const EntryId entry = world.index.find(found.hash);
  if (entry == kNoEntry) return false;
  const PageEntry& page = world.index[entry];
  return page.segment != kNowhere && world.segments.segment(page.segment) == segment.segment &&
         page.store_slot == found.slot;
}

}  // namespace

void adopt_chunk(World& world, std::span<std::byte> memory, bool adopt) {
  if (!adopt) return world.parts.pool->add_chunk(memory);
  world.parts.pool->adopt_chunk(memory, [&world](SlotId slot, PageRecord&& record) {
    adopt_slot(world, slot, std::move(record));
  });
}

void start_scan(World& world) {
  if (world.parts.store == nullptr) return;
  StoreCommand command;
  command.op = StoreOp::kScan;
  command.token = world.new_token();
  world.scanned = !world.parts.store->submit(std::move(command));
}

void scan_done(World& world, StoreDone&& done) {
  if (!done.found) {
    world.scanned = true;
    world.log.event("store_scanned", "pages=" + std::to_string(world.count.pages_scanned.value()));
    return trim_store(world);
  }
  const FoundSegment& segment = *done.segment;
  const Result<NamespaceRef> space = find_stored(world, segment.encoded, segment.generation);
  if (!space.ok()) {  // more namespaces than the limit: its pages wait for a start that knows it
    world.log.event("segment_left_alone", "why=\"" + space.status().text() + "\"");
    return;
  }
  // Pages of a cleared generation can't be asked for: their segment only takes space.
  if (segment.generation < (*space)->generation) return unlink_segment(world, segment.segment);
  size_t added = 0;
  bool known = segment.current;  // writes may still be away into it
  for (const FoundPage& page : segment.pages) {
    known = known || is_known_there(world, segment, page);
    added += add_page(world, segment, **space, page) ? 1 : 0;
  }
  if (added == 0 && known) return;
  if (added == 0) return unlink_segment(world, segment.segment);
  world.segments.set_bytes(world.segments.number(segment.segment), segment.bytes);
}

}  // namespace kvsidecar
