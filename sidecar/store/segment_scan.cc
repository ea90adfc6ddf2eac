// SPDX-License-Identifier: Apache-2.0
#include "sidecar/store/segment_scan.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace kvsidecar {
namespace {
constexpr size_t kHeadsInFlight = 16, kDirectoriesInFlight = 4;
constexpr uint64_t kPieceBytes = 1 << 20;
constexpr int kAttemptsMax = 3;  // of one file's head, and of each piece of its directory
// The folder's own files besides segments.
bool is_own_name(std::string_view name) {
  return name == "." || name == ".." || name == "owner" || name == "epoch" || name == "epoch.new" ||
         name == "probe";
}
}  // namespace

struct SegmentScan::File {
  uint64_t id = 0, file_bytes = 0, used_bytes = 0;
  SegmentFilePtr file;
  Superblock superblock;
  BouncePool::Buffer buffer;
  uint64_t piece_bytes = 0;
  uint32_t next_entry = 0;
  int attempts = 0;
  bool read_error = false, current_life = false;
  std::unique_ptr<FoundSegment> found = std::make_unique<FoundSegment>();
};

struct SegmentScan::Listing {
  struct Segment {
    uint64_t id, bytes;
  };
  std::vector<Segment> segments;
  uint64_t foreign = 0;
  int error = 0;
};

SegmentScan::SegmentScan(StoreParts& parts, Tombstones& tombstones,
                         std::function<void(std::unique_ptr<FoundSegment>)> found,
                         std::function<void(int error)> ended)
    : parts_(parts),
      tombstones_(tombstones),
      found_(std::move(found)),
      ended_call_(std::move(ended)) {
  list();
}

SegmentScan::~SegmentScan() { KV_CHECK(in_flight_ == 0 && !listing_); }

void SegmentScan::list() {
  auto listing = std::make_shared<Listing>();
  listing_ = true;
  const auto run = [listing, folder_fd = parts_.folder_fd] { read_folder(folder_fd, *listing); };
  parts_.run_slowly(run, [this, listing] { listed(*listing); });
}

void SegmentScan::read_folder(int folder_fd, Listing& listing) {
  const int fd = ::openat(folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    listing.error = errno;
    return;
  }
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(fd), ::closedir);
  while (const dirent* entry = ::readdir(entries.get())) {
    const std::string_view name = entry->d_name;
    if (is_own_name(name)) continue;
    const uint64_t id = segment_from_name(name);
    struct stat facts {};
    const bool known =
        id != 0 && ::fstatat(folder_fd, entry->d_name, &facts, AT_SYMLINK_NOFOLLOW) == 0;
    if (known && S_ISREG(facts.st_mode))
      listing.segments.push_back({id, static_cast<uint64_t>(facts.st_size)});
    else
      ++listing.foreign;
  }
}

void SegmentScan::listed(const Listing& listing) {
  listing_ = false;
  foreign_ = listing.foreign;
  if (error_ != 0) return;  // stopped meanwhile
  error_ = listing.error;
  for (const Listing::Segment& segment : listing.segments) {
    auto file = std::make_shared<File>();
    file->id = segment.id;
    file->file_bytes = segment.bytes;
    file->current_life = segment.id >> 32 == parts_.epoch;
    heads_.push_back(std::move(file));
  }
  // Oldest first, so that what is found does not depend on the file system's order.
  std::sort(heads_.begin(), heads_.end(),
            [](const FilePtr& a, const FilePtr& b) { return a->id < b->id; });
}

void SegmentScan::turn(bool held) {
  if (ended_ || listing_) return;
  while (!heads_.empty() && in_flight_ < kHeadsInFlight) {
    auto file = std::move(heads_.front());
    heads_.pop_front();
    open(file);
  }
  if (heads_.empty() && in_flight_ == 0 && !carriers_done_ && carriers_.empty())
    carriers_done_ = true;
  auto& next = carriers_done_ ? pages_ : carriers_;
  const bool heads_done = heads_.empty() && (in_flight_ == pages_in_flight_);
  while (heads_done && !next.empty() && in_flight_ < kDirectoriesInFlight && !held) {
    auto file = std::move(next.front());
    next.pop_front();
    ++in_flight_;
    ++pages_in_flight_;
    read_directory(file);
  }
  if (carriers_done_ && pages_.empty() && in_flight_ == 0) end();
}

void SegmentScan::stop() {
  heads_.clear();
  carriers_.clear();
  pages_.clear();
  error_ = ECANCELED;
}

void SegmentScan::open(const FilePtr& file) {
  file->file = parts_.files->find(file->id);
  if (file->file == nullptr && file->current_life) return;  // unlinked since it was listed
  ++in_flight_;
  if (file->file == nullptr) file->file = parts_.files->add(file->id, 0);
  if (!file->current_life) parts_.files->set_file_bytes(*file->file, file->file_bytes);
  parts_.files->with_open(file->file, true, [this, file](int error) {
    if (error == 0) return read_superblock(file);
    --in_flight_;
    if (!again(file)) leave(file, std::string("it can't be opened (") + std::strerror(error) + ")");
  });
}

// An error may pass: the file is opened anew and read once more after the others. False: often
// enough.
bool SegmentScan::again(const FilePtr& file) {
  if (error_ != 0 || ++file->attempts >= kAttemptsMax) return false;
  if (!file->current_life) file->file->close();
  heads_.push_back(file);
  return true;
}

void SegmentScan::read_superblock(const FilePtr& file) {
  file->buffer = parts_.bounce->take(kSuperblockBytesMax);
  auto io =
      make_transfer(IoKind::kRead, file->file->fd.get(), 0, file->buffer.get(), kSuperblockBytesMax,
                    [this, file](int64_t got) { check_superblock(file, got); });
  io->patient = io->prefetch = true;
  parts_.io->start(std::move(io));
}

void SegmentScan::check_superblock(const FilePtr& file, int64_t got) {
  --in_flight_;
  const BouncePool::Buffer head = std::move(file->buffer);
  if (got < 0 && again(file)) return;
  if (got < 0)
    return leave(file, std::string("its superblock can't be read (") +
                           std::strerror(static_cast<int>(-got)) + ")");
  const Bytes bytes(head.get(), static_cast<size_t>(got));
  auto superblock = decode_superblock(bytes);
  if (!superblock) {
    const bool empty =
        std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
    if (empty && !file->current_life)  // a predecessor died while it made the file
      return parts_.files->unlink(file->id, [](int) {});
    if (file->current_life) return;  // being made right now
    if (superblock.status().code() == Code::kMiss) {
      ++foreign_;
      return parts_.files->forget(file->id);
    }
    return leave(file, superblock.status().text());
  }
  file->attempts = 0;
  file->superblock = superblock.take();
  if (file->superblock.segment != file->id || file->superblock.node != parts_.node) {
    ++foreign_;
    return parts_.files->forget(file->id);
  }
  if (!file->current_life) file->file->page_bytes = file->superblock.page_bytes;
  file->used_bytes = file->superblock.slots_offset();
  if (!file->superblock.encoded.empty()) {
    pages_.push_back(file);
    return;
  }
  tombstones_.found_carrier(file->id);
  carriers_.push_back(file);
}

void SegmentScan::read_directory(const FilePtr& file) {
  const uint64_t all = uint64_t{file->superblock.directory_entries} * kEntryBytes;
  const uint64_t from = uint64_t{file->next_entry} * kEntryBytes;
  file->piece_bytes = std::min(kPieceBytes, all - from);
  if (file->next_entry == 0) file->found->pages.reserve(file->superblock.directory_entries);
  if (!file->buffer) file->buffer = parts_.bounce->take(std::min(kPieceBytes, all));
  auto io = make_transfer(IoKind::kRead, file->file->fd.get(), file->superblock.head_bytes() + from,
                          file->buffer.get(), file->piece_bytes,
                          [this, file](int64_t got) { take_entries(file, got); });
  io->patient = io->prefetch = true;
  parts_.io->start(std::move(io));
}

void SegmentScan::take_entries(const FilePtr& file, int64_t got) {
  if (got < 0) {
    parts_.io_ended(false, static_cast<int>(-got));
    if (error_ == 0 && ++file->attempts < kAttemptsMax) return read_directory(file);
    file->read_error = true;
    got = 0;
  }
  // What lies beyond a cut end of the file are entries that are gone.
  const auto whole = static_cast<uint32_t>(static_cast<uint64_t>(got) / kEntryBytes);
  for (uint32_t i = 0; i < whole; ++i) {
    const std::byte* at = file->buffer.get() + uint64_t{i} * kEntryBytes;
    entry(*file, decode_entry(std::span<const std::byte, kEntryBytes>(at, kEntryBytes), file->id,
                              file->next_entry + i));
  }
  file->next_entry += static_cast<uint32_t>(file->piece_bytes / kEntryBytes);
  file->attempts = 0;
  if (file->next_entry < file->superblock.directory_entries) return read_directory(file);
  --in_flight_;
  --pages_in_flight_;
  file->buffer.reset();
  finish(file);
}

void SegmentScan::entry(File& file, const DirectoryEntry& e) {
  if (e.kind == EntryKind::kEmpty) return;
  if (e.kind == EntryKind::kTorn) {
    ++torn_;
    return;
  }
  if (e.kind == EntryKind::kTombstone) {
    tombstones_.found(file.id, {e.segment, e.slot}, e.hash);
    return;
  }
  const uint64_t end = trailer_offset(e.offset, e.page_bytes) + e.trailer_bytes;
  const bool sane = e.page_bytes == file.superblock.page_bytes && e.offset % kSlotUnit == 0 &&
                    e.offset >= file.superblock.slots_offset() && e.offset < end &&
                    e.offset / kSlotUnit <= 0xffffffffu && e.trailer_bytes <= (1u << 20);
  if (!sane) {
    ++torn_;
    return;
  }
  if (end > file.file_bytes && !file.current_life && !parts_.late_lengths) {
    ++cut_;
    return;
  }
  file.used_bytes = std::max(file.used_bytes, slot_end(e.offset, e.page_bytes, e.trailer_bytes));
  if (tombstones_.covers({file.id, e.number})) return;
  if (!file.current_life) file.file->slots.set(e.number, {e.offset, e.trailer_bytes});
  file.found->pages.push_back({e.hash, e.digest, e.page_bytes, e.number, e.imported});
}

void SegmentScan::finish(const FilePtr& file) {
  if (file->file->unlinked) return;
  const bool carrier = file->superblock.encoded.empty();
  // Nobody knows what it holds: it must not go for looking empty.
  if (carrier && file->read_error) tombstones_.keep_carrier(file->id);
  if (!file->current_life) {
    if (!carrier && file->found->pages.empty() && !file->read_error)
      return parts_.files->unlink(file->id, [](int) {});
    // Space that a predecessor had taken in advance comes back.
    const uint64_t used = align_up(file->used_bytes, kBlockBytes);
    if (parts_.late_lengths)
      parts_.files->set_file_bytes(*file->file, std::max(used, file->file_bytes));
    else if (!file->read_error && used < file->file_bytes &&
             ::ftruncate(file->file->fd.get(), static_cast<off_t>(used)) == 0)
      parts_.files->set_file_bytes(*file->file, used);
  }
  if (carrier || file->found->pages.empty()) return;
  ++segments_found_;
  pages_found_ += file->found->pages.size();
  file->found->segment = file->id;
  file->found->bytes = file->file->file_bytes;
  file->found->encoded = file->superblock.encoded;
  file->found->generation = file->superblock.generation;
  file->found->current = file->current_life;
  found_(std::move(file->found));
}

// A segment of ours that can't be read: its pages are lost, the file stays for whoever looks.
void SegmentScan::leave(const FilePtr& file, const std::string& why) {
  ++bad_;
  left_alone_.insert(file->id);
  parts_.log(StoreLogLevel::kWarning, "store_segment",
             "store " + parts_.folder + ": " + segment_name(file->id) + " is left alone: " + why);
  if (!file->current_life) parts_.files->forget(file->id);
}

void SegmentScan::end() {
  ended_ = true;
  StoreCounters& c = *parts_.counters;
  c.foreign_files.store(foreign_, std::memory_order_relaxed);
  c.bad_superblocks.store(bad_, std::memory_order_relaxed);
  c.torn_entries.store(torn_, std::memory_order_relaxed);
  c.cut_pages.store(cut_, std::memory_order_relaxed);
  if (error_ == 0) {
    // Those of a segment that can't be read today are kept: it may be readable tomorrow.
    tombstones_.forget_targets_but([this](uint64_t segment) {
      return parts_.files->find(segment) != nullptr || left_alone_.count(segment) > 0;
    });
    tombstones_.carry_on();
  }
  const auto number = [](uint64_t value) { return std::to_string(value); };
  const bool lost = segments_found_ == 0 && (bad_ > 0 || torn_ > 0 || error_ != 0);
  parts_.log(lost ? StoreLogLevel::kError : StoreLogLevel::kInfo, "store_scan",
             "store " + parts_.folder + ": found " + number(pages_found_) + " pages in " +
                 number(segments_found_) + " segments; torn entries " + number(torn_) +
                 ", pages cut off " + number(cut_) + ", unreadable segments " + number(bad_) +
                 ", foreign files " + number(foreign_) +
                 (error_ != 0 ? std::string("; ended early: ") + std::strerror(error_) : ""));
  ended_call_(error_);
}

}  // namespace kvsidecar
