// SPDX-License-Identifier: Apache-2.0
#include "sidecar/store/open_segment.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace kvsidecar {
namespace {
constexpr uint64_t kExtentBytes = 64ull << 20;
constexpr size_t kGroupPages = 16;
constexpr size_t kGroupPagesMax = 1024;
constexpr uint64_t kGroupNs = 5'000'000;
// How long a new segment waits for others to be unlinked.
constexpr uint64_t kRoomWaitNs = 2'000'000'000;
}  // namespace

OpenSegment::OpenSegment(StoreParts& parts, Superblock superblock, uint64_t segment_bytes)
    : parts_(parts),
      superblock_(std::move(superblock)),
      extent_bytes_(std::max(std::min(kExtentBytes, align_up(segment_bytes, kBlockBytes)),
                             align_up(superblock_.page_bytes, kBlockBytes))),
      limit_bytes_(segment_bytes),
      end_(superblock_.slots_offset()),
      tail_(parts.bounce->take(kBlockBytes)) {
  std::memset(tail_.get(), 0, kBlockBytes);
  begin();
}

OpenSegment::~OpenSegment() { KV_CHECK(idle()); }

void OpenSegment::begin() {
  superblock_.segment = uint64_t{parts_.epoch} << 32 | parts_.next_sequence++;
  superblock_.node = parts_.node;
  file_ = parts_.files->add(superblock_.segment, superblock_.page_bytes);
  allocated_ = align_up(end_, kBlockBytes) + extent_bytes_;
  take_room(true);
}

// The space is the segment's from before the file is made, so that several that are made at once
// don't take the same.
void OpenSegment::take_room(bool may_wait) {
  const bool waited = std::exchange(waits_for_room_, false);
  if (waited) parts_.counters->wanted_bytes.fetch_sub(allocated_, std::memory_order_relaxed);
  if (parts_.has_room(allocated_, superblock_.encoded.empty())) {
    parts_.files->set_file_bytes(*file_, allocated_);
    return open();
  }
  if (!may_wait) return fail(ENOSPC);
  if (!waited) waits_since_ns_ = parts_.clock.now_ns();
  waits_for_room_ = true;
  parts_.counters->wanted_bytes.fetch_add(allocated_, std::memory_order_relaxed);
}

void OpenSegment::open() {
  auto io = std::make_unique<Io>();
  io->kind = IoKind::kOpen;
  io->fd = parts_.folder_fd;
  io->path = segment_name(superblock_.segment);
  io->flags =
      O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW | (parts_.io->direct() ? O_DIRECT : 0);
  io->done = [this](int64_t result) { create(result); };
  parts_.io->start(std::move(io));
}

void OpenSegment::create(int64_t fd) {
  if (fd < 0) return fail(static_cast<int>(-fd));
  parts_.files->take_fd(file_, static_cast<int>(fd), [this](int error) {
    if (error != 0) return fail(error);
    if (parts_.late_lengths) return write_superblock();
    allocate();
  });
}

void OpenSegment::allocate() {
  auto io = std::make_unique<Io>();
  io->kind = IoKind::kAllocate;
  io->fd = file_->fd.get();
  io->bytes = allocated_;
  io->done = [this](int64_t result) {
    // A file system without fallocate makes do with a sparse file.
    if (result < 0 && result != -EOPNOTSUPP && result != -ENOSYS)
      return fail(static_cast<int>(-result));
    write_superblock();
  };
  parts_.io->start(std::move(io));
}

void OpenSegment::write_superblock() {
  superblock_.created_ms = parts_.clock.wall_ms();
  const uint64_t bytes = superblock_.head_bytes();
  std::shared_ptr<std::byte> head(parts_.bounce->take(bytes));
  encode_superblock(superblock_, {head.get(), bytes});
  auto io = make_transfer(IoKind::kWrite, file_->fd.get(), 0, head.get(), bytes,
                          [this, head](int64_t result) {
                            if (result < 0) return fail(static_cast<int>(-result));
                            dirty_ = true;
                            state_ = State::kOpen;
                          });
  parts_.io->start(std::move(io));
}

void OpenSegment::fail(int error) {
  error_ = error;
  state_ = State::kFailed;
  sealed_ = true;
  // Also when the file was never made: then it is only forgotten.
  if (!file_->unlinked) parts_.files->unlink(file_->id, [](int) {});
}

bool OpenSegment::fits(uint64_t entries, uint64_t bytes) const {
  if (sealed_ || broken_ || file_->unlinked) return false;
  if (entries_taken_ + entries > superblock_.directory_entries) return false;
  // An empty segment takes its first slot whatever its size.
  return entries_taken_ == 0 || align_up(end_, kBlockBytes) + bytes <= limit_bytes_;
}

uint64_t OpenSegment::room_to_stripe() const {
  if (parts_.stripe_bytes == 0) return ~uint64_t{0};
  return parts_.stripe_bytes - align_up(end_, kBlockBytes) % parts_.stripe_bytes;
}

uint64_t OpenSegment::take(uint64_t entries, uint64_t bytes) {
  KV_CHECK(state_ == State::kOpen);
  const uint64_t offset = place_slot(end_, bytes, kBlockBytes, parts_.stripe_bytes);
  end_ = offset + bytes;
  entries_taken_ += entries;
  entries_in_flight_ += entries;
  allocate_ahead();
  return offset;
}

// Writes into space that the file system gave beforehand don't wait for each other. Failure is not
// an error: the data's own write will tell.
void OpenSegment::allocate_ahead() {
  if (allocating_ || allocated_ >= limit_bytes_ || end_ + extent_bytes_ / 2 < allocated_) return;
  const uint64_t before = allocated_;
  const uint64_t more = std::min(extent_bytes_, align_up(limit_bytes_, kBlockBytes) - before);
  if (!parts_.has_room(more, false)) {
    limit_bytes_ = std::max(allocated_, end_);  // a short segment; the next waits for room
    return;
  }
  parts_.files->set_file_bytes(*file_, before + more);
  if (parts_.late_lengths) {
    allocated_ = before + more;
    return;
  }
  allocating_ = true;
  auto io = std::make_unique<Io>();
  io->kind = IoKind::kAllocate;
  io->fd = file_->fd.get();
  io->offset = before;
  io->bytes = more;
  io->done = [this, before, more](int64_t result) {
    allocating_ = false;
    allocated_ = before + more;
    if (result < 0) parts_.files->set_file_bytes(*file_, before);
  };
  parts_.io->start(std::move(io));
}

void OpenSegment::appended(DirectoryEntry entry, bool durable, Committed done) {
  if (ready_.empty()) ready_since_ns_ = parts_.clock.now_ns();
  --entries_in_flight_;
  ready_.push_back({std::move(entry), durable, std::move(done)});
}

void OpenSegment::given_up(uint64_t entries) {
  entries_in_flight_ -= entries;
  entries_taken_ -= entries;
}

bool OpenSegment::idle() const {
  return entries_in_flight_ == 0 && ready_.empty() && unsynced_.empty() && !committing_ &&
         !syncing_ && !allocating_ && sync_callers_.empty() && state_ != State::kOpening;
}

void OpenSegment::turn(uint64_t now_ns, bool closing) {
  if (waits_for_room_) take_room(!closing && now_ns < waits_since_ns_ + kRoomWaitNs);
  if (state_ != State::kOpen) {
    for (auto& caller : std::exchange(sync_callers_, {})) caller(error_);
    return;
  }
  if (!ready_.empty() && !committing_) {
    const bool due = closing || ready_.size() >= kGroupPages || entries_in_flight_ == 0 ||
                     now_ns >= ready_since_ns_ + kGroupNs;
    if (due) commit();
  }
  const bool settled = entries_in_flight_ == 0 && ready_.empty() && !committing_;
  const bool wanted =
      !unsynced_.empty() || !sync_callers_.empty() || (sealed_ && settled && dirty_);
  if (!syncing_ && wanted && !file_->unlinked) start_sync();
  if (file_->unlinked && wanted && !syncing_)
    synced(0, std::exchange(unsynced_, {}), std::exchange(sync_callers_, {}));
  if (sealed_ && !closed_ && idle() && (!dirty_ || broken_ || file_->unlinked)) cut_to_length();
}

void OpenSegment::commit() {
  const size_t count = std::min(ready_.size(), kGroupPagesMax);
  std::vector<Pending> group(
      std::make_move_iterator(ready_.begin()),
      std::make_move_iterator(ready_.begin() + static_cast<std::ptrdiff_t>(count)));
  ready_.erase(ready_.begin(), ready_.begin() + static_cast<std::ptrdiff_t>(count));
  if (broken_ || file_->unlinked) {
    for (Pending& pending : group) report(pending, Code::kNotStored);
    return;
  }
  const uint32_t first_block = next_entry_ / kEntriesPerBlock;
  const uint64_t last_block = (next_entry_ + count - 1) / kEntriesPerBlock;
  const uint64_t bytes = (last_block - first_block + 1) * kBlockBytes;
  std::shared_ptr<std::byte> blocks(parts_.bounce->take(bytes));
  std::memset(blocks.get(), 0, bytes);
  std::memcpy(blocks.get(), tail_.get(), kBlockBytes);
  const uint64_t base = uint64_t{first_block} * kEntriesPerBlock;
  for (Pending& pending : group) {
    pending.entry.number = next_entry_++;
    pending.entry.written_ms = parts_.clock.wall_ms();
    std::byte* at = blocks.get() + (pending.entry.number - base) * kEntryBytes;
    encode_entry(pending.entry, file_->id, std::span<std::byte, kEntryBytes>(at, kEntryBytes));
  }
  if (next_entry_ % kEntriesPerBlock == 0)
    std::memset(tail_.get(), 0, kBlockBytes);
  else
    std::memcpy(tail_.get(), blocks.get() + bytes - kBlockBytes, kBlockBytes);
  committing_ = true;
  auto shared = std::make_shared<std::vector<Pending>>(std::move(group));
  const uint64_t offset = superblock_.head_bytes() + uint64_t{first_block} * kBlockBytes;
  parts_.io->start(make_transfer(IoKind::kWrite, file_->fd.get(), offset, blocks.get(), bytes,
                                 [this, blocks, shared, bytes](int64_t result) {
                                   committed(std::move(*shared), result, bytes);
                                 }));
}

void OpenSegment::committed(std::vector<Pending> group, int64_t result, uint64_t bytes) {
  committing_ = false;
  const bool ok = result >= 0 && static_cast<uint64_t>(result) == bytes && !file_->unlinked;
  // After a failed directory write nobody knows what is on the disk there: nothing more goes into
  // this segment.
  if (!ok) broken_ = true;
  parts_.io_ended(true, result < 0 ? static_cast<int>(-result) : 0);
  dirty_ = true;
  for (Pending& pending : group) {
    const DirectoryEntry& e = pending.entry;
    if (ok && e.kind == EntryKind::kPage) file_->slots.set(e.number, {e.offset, e.trailer_bytes});
    if (ok && pending.durable && !parts_.late_lengths)
      unsynced_.push_back(std::move(pending));
    else
      report(pending, ok ? Code::kOk : Code::kNotStored);
  }
}

void OpenSegment::report(Pending& pending, Code status) {
  pending.committed(status, pending.entry.number);
}

void OpenSegment::sync(std::function<void(int error)> done) {
  // What was reported is durable there; the sync of a sealed segment only settles its length.
  if (parts_.late_lengths) return done(0);
  if (!dirty_ && !syncing_ && ready_.empty() && !committing_) return done(0);
  sync_callers_.push_back(std::move(done));
}

void OpenSegment::start_sync() {
  syncing_ = true;
  dirty_ = false;
  auto pages = std::make_shared<std::vector<Pending>>(std::exchange(unsynced_, {}));
  auto callers =
      std::make_shared<std::vector<std::function<void(int)>>>(std::exchange(sync_callers_, {}));
  auto io = std::make_unique<Io>();
  io->kind = IoKind::kDataSync;
  io->fd = file_->fd.get();
  io->done = [this, pages, callers](int64_t result) {
    if (result < 0 || folder_synced_ || parts_.late_lengths)
      return synced(result < 0 ? static_cast<int>(-result) : 0, std::move(*pages),
                    std::move(*callers));
    auto folder = std::make_unique<Io>();  // a new file is durable only with its name
    folder->kind = IoKind::kSync;
    folder->fd = parts_.folder_fd;
    folder->done = [this, pages, callers](int64_t second) {
      folder_synced_ = second >= 0;
      synced(second < 0 ? static_cast<int>(-second) : 0, std::move(*pages), std::move(*callers));
    };
    parts_.io->start(std::move(folder));
  };
  parts_.io->start(std::move(io));
}

void OpenSegment::synced(int error, std::vector<Pending> pages,
                         std::vector<std::function<void(int)>> callers) {
  syncing_ = false;
  if (error != 0) {
    broken_ = true;  // what fdatasync failed to write may be lost for good
    parts_.io_ended(true, error);
  }
  const bool ok = error == 0 && !file_->unlinked;
  for (Pending& pending : pages) report(pending, ok ? Code::kOk : Code::kNotStored);
  for (auto& caller : callers) caller(error);
}

void OpenSegment::cut_to_length() {
  closed_ = true;
  if (file_->unlinked) return;
  if (next_entry_ == 0) return parts_.files->unlink(file_->id, [](int) {});  // holds nothing
  const uint64_t length = align_up(end_, kBlockBytes);
  // Where no space was taken in advance there is none to give back.
  if (parts_.late_lengths || ::ftruncate(file_->fd.get(), static_cast<off_t>(length)) == 0)
    parts_.files->set_file_bytes(*file_, length);
  tail_.reset();
}

}  // namespace kvsidecar
