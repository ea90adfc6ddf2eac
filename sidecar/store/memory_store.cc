// SPDX-License-Identifier: Apache-2.0
#include "sidecar/store/memory_store.h"

#include <algorithm>
#include <cstring>

#include "ipc/page_origin.h"
#include "ipc/result.h"

namespace kvsidecar {
namespace {
constexpr uint64_t kSlotRounding = 4096;
uint64_t slot_bytes_of(uint64_t page_bytes) {
  return (page_bytes + kSlotRounding - 1) / kSlotRounding * kSlotRounding + kSlotRounding;
}
}  // namespace

void MemoryDisk::crash(Random& random) {
  for (auto& [id, segment] : segments_) {
    for (auto at = segment.pages.begin(); at != segment.pages.end();) {
      MemoryDisk::Page& page = at->second;
      if (page.deleted && !page.delete_durable && random.next() % 2 == 0) page.deleted = false;
      const bool lost = !page.durable && random.next() % 2 == 0;
      at = lost ? segment.pages.erase(at) : std::next(at);
    }
  }
}

size_t MemoryDisk::vanish(Random& random) {
  return std::erase_if(segments_, [&random](const auto&) { return random.next() % 2 == 0; });
}

void MemoryDisk::rot() {
  for (auto& [id, segment] : segments_)
    for (auto& [slot, page] : segment.pages)
      if (!page.bytes.empty()) page.bytes[page.bytes.size() / 2] ^= std::byte{0x20};
}

uint64_t MemoryDisk::pages() const {
  uint64_t count = 0;
  for (const auto& [id, segment] : segments_)
    for (const auto& [slot, page] : segment.pages) count += page.deleted ? 0 : 1;
  return count;
}

MemoryStore::MemoryStore(std::shared_ptr<MemoryDisk> disk, const Options& options, Random& random)
    : disk_(std::move(disk)),
      options_(options),
      random_(random),
      epoch_(++disk_->epoch_),
      commands_(options.queue_capacity),
      done_(options.queue_capacity) {
  for (const auto& [id, segment] : disk_->segments_) used_bytes_ += segment.bytes;
}

MemoryStore::~MemoryStore() = default;

bool MemoryStore::submit(StoreCommand&& command) {
  if (outstanding_ >= options_.queue_capacity) return false;
  if (!commands_.try_push(std::move(command))) return false;
  ++outstanding_;
  waker().wake();
  return true;
}

bool MemoryStore::poll(StoreDone& done) {
  if (!done_.try_pop(done)) return false;
  if (!done.found) --outstanding_;
  return true;
}

bool MemoryStore::has_work() { return !commands_.empty() || must_poll(); }

bool MemoryStore::must_poll() {
  return (!waiting_.empty() && !faults_.held) || (!backlog_.empty() && done_.room() > 0);
}

bool MemoryStore::chance(uint32_t per_mille) {
  return per_mille > 0 && random_.next() % 1000 < per_mille;
}

void MemoryStore::report(StoreDone&& done) {
  if (backlog_.empty() && done_.try_push(std::move(done))) return;
  backlog_.push_back(std::move(done));
}

bool MemoryStore::step() {
  ++steps_;
  bool did = false;
  StoreCommand command;
  while (commands_.try_pop(command)) {
    did = true;
    const uint64_t delay = chance(faults_.late) ? 1 + random_.next() % faults_.late_steps_max : 0;
    waiting_.push_back({steps_ + delay, std::move(command)});
  }
  if (!faults_.held) {
    // A flush waits for every write before it; the rest ends in the order of its time.
    for (size_t i = 0; i < waiting_.size();) {
      const bool flush = waiting_[i].command.op == StoreOp::kFlush;
      if (waiting_[i].due_step > steps_ || (flush && i > 0)) {
        ++i;
        continue;
      }
      StoreCommand due = std::move(waiting_[i].command);
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
      perform(due);
      did = true;
    }
  }
  while (!backlog_.empty() && done_.try_push(std::move(backlog_.front()))) backlog_.pop_front();
  if (did && options_.done_waker != nullptr) options_.done_waker->wake();
  return did;
}

void MemoryStore::perform(StoreCommand& command) {
  StoreDone done;
  done.op = command.op;
  done.token = command.token;
  switch (command.op) {
    case StoreOp::kWrite:
      write(command, done);
      break;
    case StoreOp::kRead:
      read(command, done);
      break;
    case StoreOp::kDelete:
      erase(command, done);
      break;
    case StoreOp::kUnlink: {
      const auto at = disk_->segments_.find(command.location.segment);
      if (at == disk_->segments_.end()) {
        done.status = Code::kMiss;
        break;
      }
      used_bytes_ -= at->second.bytes;
      disk_->segments_.erase(at);
      std::erase_if(open_, [&](const auto& o) { return o.second == command.location.segment; });
      break;
    }
    case StoreOp::kScan:
      scan(command);
      break;
    case StoreOp::kFlush:
      flush();
      break;
  }
  report(std::move(done));
}

void MemoryStore::write(const StoreCommand& command, StoreDone& done) {
  KV_CHECK(command.space != nullptr && command.record != nullptr && command.page != nullptr);
  KV_CHECK(command.page_bytes == command.space->page_bytes && command.page_bytes > 0);
  if (faults_.full || chance(faults_.write_fails)) {
    done.status = Code::kNotStored;
    return;
  }
  auto& open = open_[{command.record->namespace_id, command.record->generation}];
  const uint64_t slot_bytes = slot_bytes_of(command.page_bytes);
  if (open != 0 && disk_->segments_[open].bytes + slot_bytes > options_.segment_bytes) open = 0;
  if (open == 0) {
    open = uint64_t{epoch_} << 32 | next_sequence_++;
    disk_->segments_[open].encoded = command.space->encoded;
    disk_->segments_[open].generation = command.record->generation;
  }
  MemoryDisk::Segment& segment = disk_->segments_[open];
  const uint32_t slot = segment.next_slot++;
  MemoryDisk::Page& page = segment.pages[slot];
  page.bytes.assign(command.page, command.page + command.page_bytes);
  page.record = *command.record;
  page.durable = command.durable;
  segment.bytes += slot_bytes;
  used_bytes_ += slot_bytes;
  done.location = {open, slot};
  done.slot_bytes = slot_bytes;
}

MemoryDisk::Page* MemoryStore::find(const StoreLocation& location) {
  const auto segment = disk_->segments_.find(location.segment);
  if (segment == disk_->segments_.end()) return nullptr;
  const auto page = segment->second.pages.find(location.slot);
  if (page == segment->second.pages.end() || page->second.deleted) return nullptr;
  return &page->second;
}

void MemoryStore::read(const StoreCommand& command, StoreDone& done) {
  MemoryDisk::Page* page = find(command.location);
  if (page == nullptr || page->bytes.size() != command.page_bytes) {
    done.status = Code::kMiss;
    return;
  }
  if (chance(faults_.read_fails)) {
    std::memcpy(command.page, page->bytes.data(), page->bytes.size() / 2);
    done.status = Code::kIoError;
    return;
  }
  std::memcpy(command.page, page->bytes.data(), page->bytes.size());
  if (chance(faults_.read_corrupt))
    command.page[random_.next() % command.page_bytes] ^= std::byte{1};
  done.record = std::make_unique<PageRecord>(page->record);
}

void MemoryStore::erase(const StoreCommand& command, StoreDone& done) {
  MemoryDisk::Page* page = find(command.location);
  if (page == nullptr) {
    done.status = Code::kMiss;
  } else if (chance(faults_.delete_fails)) {
    done.status = Code::kIoError;
  } else {
    page->deleted = true;
    page->delete_durable = command.durable;
  }
}

void MemoryStore::flush() {
  for (auto& [id, segment] : disk_->segments_)
    for (auto& [slot, page] : segment.pages) {
      page.durable = true;
      page.delete_durable = page.deleted;
    }
}

void MemoryStore::scan(const StoreCommand& command) {
  for (const auto& [id, segment] : disk_->segments_) {
    auto found = std::make_unique<FoundSegment>();
    found->segment = id;
    found->bytes = segment.bytes;
    found->encoded = segment.encoded;
    found->generation = segment.generation;
    found->current = id >> 32 == epoch_;
    for (const auto& [slot, page] : segment.pages)
      if (!page.deleted)
        found->pages.push_back({page.record.hash, page.record.digest, page.record.page_bytes, slot,
                                !origin_of(page.record.description).empty()});
    if (found->pages.empty()) continue;
    report(
        {.op = StoreOp::kScan, .found = true, .token = command.token, .segment = std::move(found)});
  }
}

}  // namespace kvsidecar
