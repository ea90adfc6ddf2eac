// SPDX-License-Identifier: Apache-2.0
#include "sidecar/store/segment_writer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ipc/page_origin.h"

namespace kvsidecar {
namespace {
// Two, so that a group fills while the one before is written.
constexpr uint32_t kGroupsInFlight = 2;
}  // namespace

SegmentWriter::SegmentWriter(StoreParts& parts, std::vector<std::byte> encoded, uint64_t generation,
                             uint64_t page_bytes)
    : parts_(parts),
      encoded_(std::move(encoded)),
      generation_(generation),
      page_bytes_(page_bytes),
      packed_(page_bytes < kPackedBytes) {}

void SegmentWriter::write(PendingWritePtr write) {
  last_use_ns_ = parts_.clock.now_ns();
  waiting_.push_back(std::move(write));
}

void SegmentWriter::fail_waiting() {
  for (auto& write : std::exchange(waiting_, {})) write->done(Code::kNotStored, {}, 0);
}

bool SegmentWriter::owns(uint64_t segment) const {
  return current_ != nullptr && current_->file()->id == segment;
}

void SegmentWriter::seal() {
  if (current_ == nullptr) return;
  current_->seal();
  sealed_.push_back(std::move(current_));
}

bool SegmentWriter::idle() const {
  const auto is_idle = [](const auto& segment) { return segment->idle(); };
  return waiting_.empty() && groups_in_flight_ == 0 && (current_ == nullptr || is_idle(current_)) &&
         std::all_of(sealed_.begin(), sealed_.end(), is_idle);
}

bool SegmentWriter::finished() const { return idle() && current_ == nullptr && sealed_.empty(); }

void SegmentWriter::sync(const std::function<void(int error)>& each, size_t& calls) {
  const auto sync_one = [&](OpenSegment& segment) {
    ++calls;
    segment.sync(each);
  };
  if (current_ != nullptr) sync_one(*current_);
  for (auto& segment : sealed_) sync_one(*segment);
}

void SegmentWriter::turn(uint64_t now_ns, bool closing) {
  while (!waiting_.empty()) {
    if (!segment_ready(*waiting_.front())) break;
    if (packed_) {
      if (groups_in_flight_ >= kGroupsInFlight) break;
      start_group();
    } else {
      auto next = std::move(waiting_.front());
      waiting_.pop_front();
      start_large(std::move(next));
    }
  }
  if (current_ != nullptr) current_->turn(now_ns, closing);
  for (auto& segment : sealed_) segment->turn(now_ns, closing);
  std::erase_if(sealed_, [](const auto& s) { return s->finished() && s->idle(); });
}

// False: wait (the segment is being made), or the front page was failed by its creation.
bool SegmentWriter::segment_ready(const PendingWrite& next) {
  if (current_ == nullptr) {
    open_next(next);
    return false;
  }
  if (current_->state() == OpenSegment::State::kOpening) return false;
  if (current_->state() == OpenSegment::State::kFailed) {
    const int error = current_->error();
    parts_.io_ended(true, error);
    parts_.log(StoreLogLevel::kWarning, "store_open",
               "store " + parts_.folder + ": a segment can't be made: " + std::strerror(error) +
                   "; the page stays in memory only");
    auto failed = std::move(waiting_.front());
    waiting_.pop_front();
    seal();
    failed->done(Code::kNotStored, {}, 0);
    return false;
  }
  const uint64_t bytes = align_up(
      slot_end(0, next.command.page_bytes, record_bytes(*next.command.record)), kBlockBytes);
  if (current_->fits(1, bytes)) return true;
  seal();
  open_next(next);
  return false;
}

void SegmentWriter::open_next(const PendingWrite& next) {
  Superblock superblock;
  superblock.generation = generation_;
  superblock.page_bytes = page_bytes_;
  superblock.encoded = encoded_;
  superblock.slot_alignment = static_cast<uint32_t>(packed_ ? kSlotUnit : kBlockBytes);
  superblock.directory_entries =
      directory_entries_for(parts_.segment_bytes, page_bytes_, record_bytes(*next.command.record));
  current_ = std::make_shared<OpenSegment>(parts_, std::move(superblock), parts_.segment_bytes);
}

DirectoryEntry SegmentWriter::entry_of(const StoreCommand& command, uint64_t offset) {
  DirectoryEntry entry;
  entry.kind = EntryKind::kPage;
  entry.hash = command.record->hash;
  entry.page_bytes = command.page_bytes;
  entry.digest = command.record->digest;
  entry.offset = offset;
  entry.trailer_bytes = static_cast<uint32_t>(record_bytes(*command.record));
  entry.imported = !origin_of(command.record->description).empty();
  return entry;
}

void SegmentWriter::end(PendingWritePtr write, Code status, uint32_t number, uint64_t slot_bytes,
                        uint64_t segment) {
  const StoreLocation location =
      status == Code::kOk ? StoreLocation{segment, number} : StoreLocation{};
  write->done(status, location, slot_bytes);
}

// The page goes from its slot to the disk, its length rounded up; the trailer from a bounce buffer
// behind it. Registered memory takes a write of its own, else both go in one.
void SegmentWriter::start_large(PendingWritePtr write) {
  struct Large {
    std::shared_ptr<OpenSegment> segment;
    PendingWritePtr write;
    BouncePool::Buffer trailer;
    uint64_t offset = 0, slot_bytes = 0;
    int left = 0, error = 0;
  };
  auto large = std::make_shared<Large>();
  large->segment = current_;
  large->write = std::move(write);
  StoreCommand& command = large->write->command;
  const uint64_t record = record_bytes(*command.record), trailer = align_up(record, kBlockBytes);
  const uint64_t page = align_up(command.page_bytes, kBlockBytes);
  large->slot_bytes = page + trailer;
  large->offset = current_->take(1, large->slot_bytes);
  large->trailer = parts_.bounce->take(trailer);
  encode_record(*command.record, {large->trailer.get(), record});
  std::memset(large->trailer.get() + record, 0, trailer - record);
  const auto done = [this, large](int64_t result) {
    if (result < 0) large->error = static_cast<int>(-result);
    if (--large->left > 0) return;
    parts_.io_ended(true, large->error);
    if (large->error != 0) {
      large->segment->given_up(1);
      return end(std::move(large->write), Code::kNotStored, 0, 0, 0);
    }
    parts_.counters->bytes_written.fetch_add(large->slot_bytes, std::memory_order_relaxed);
    large->trailer.reset();
    const bool durable = large->write->command.durable;
    large->segment->appended(entry_of(large->write->command, large->offset), durable,
                             [this, large](Code status, uint32_t number) {
                               end(std::move(large->write), status, number, large->slot_bytes,
                                   large->segment->file()->id);
                             });
  };
  const int fd = current_->file()->fd.get();
  auto io = make_transfer(IoKind::kWrite, fd, large->offset, command.page, page, done);
  if (parts_.io->is_registered(command.page, page)) {
    large->left = 2;
    parts_.io->start(std::move(io));
    io = make_transfer(IoKind::kWrite, fd, large->offset + page, large->trailer.get(), trailer,
                       done);
  } else {
    large->left = 1;
    io->pieces[1] = {large->trailer.get(), trailer};
    io->piece_count = 2;
  }
  parts_.io->start(std::move(io));
}

// As many waiting pages as go into one write.
void SegmentWriter::start_group() {
  struct Packed {
    PendingWritePtr write;
    uint64_t offset, slot_bytes;
  };
  struct Group {
    std::shared_ptr<OpenSegment> segment;
    BouncePool::Buffer bytes;
    std::vector<Packed> pages;
  };
  auto group = std::make_shared<Group>();
  group->segment = current_;
  // A group stays within its stripe, unless not even one page would fit there.
  uint64_t room = std::min(kGroupBytes, current_->room_to_stripe());
  uint64_t end_bytes = 0;
  size_t count = 0;
  for (const auto& write : waiting_) {
    const uint64_t record = record_bytes(*write->command.record);
    const uint64_t end = slot_end(end_bytes, write->command.page_bytes, record);
    if (count == 0 && end > room) room = kGroupBytes;
    if (end > room || !current_->fits(count + 1, align_up(end, kBlockBytes))) break;
    end_bytes = end;
    ++count;
  }
  if (count == 0) return;
  const uint64_t bytes = align_up(end_bytes, kBlockBytes);
  const uint64_t offset = current_->take(count, bytes);
  group->bytes = parts_.bounce->take(bytes);
  std::byte* const base = group->bytes.get();
  std::memset(base, 0, bytes);  // no stale bytes between the slots
  uint64_t at = 0;
  for (size_t i = 0; i < count; ++i) {
    auto write = std::move(waiting_.front());
    waiting_.pop_front();
    const StoreCommand& command = write->command;
    const uint64_t record = record_bytes(*command.record);
    std::memcpy(base + at, command.page, command.page_bytes);
    encode_record(*command.record, {base + trailer_offset(at, command.page_bytes), record});
    const uint64_t end = slot_end(at, command.page_bytes, record);
    group->pages.push_back({std::move(write), offset + at, end - at});
    at = end;
  }
  ++groups_in_flight_;
  parts_.io->start(
      make_transfer(IoKind::kWrite, current_->file()->fd.get(), offset, base, bytes,
                    [this, group, bytes](int64_t result) {
                      --groups_in_flight_;
                      parts_.io_ended(true, result < 0 ? static_cast<int>(-result) : 0);
                      group->bytes.reset();
                      if (result < 0) group->segment->given_up(group->pages.size());
                      for (Packed& packed : group->pages) {
                        if (result < 0) {
                          end(std::move(packed.write), Code::kNotStored, 0, 0, 0);
                          continue;
                        }
                        const bool durable = packed.write->command.durable;
                        auto write = std::make_shared<PendingWritePtr>(std::move(packed.write));
                        const auto entry = entry_of((*write)->command, packed.offset);
                        group->segment->appended(
                            entry, durable,
                            [this, write, slot_bytes = packed.slot_bytes,
                             segment = group->segment->file()->id](Code status, uint32_t number) {
                              end(std::move(*write), status, number, slot_bytes, segment);
                            });
                      }
                      if (result >= 0)
                        parts_.counters->bytes_written.fetch_add(bytes, std::memory_order_relaxed);
                    }));
}

}  // namespace kvsidecar
