// SPDX-License-Identifier: Apache-2.0
// One segment file while it is written: created, given space, filled from front to back, its
// directory appended in groups, then sealed. Entries get their numbers when their group is
// committed, after their data was acknowledged; so the directory has no holes. One owner (the store
// worker); must outlive its I/O: see finished().
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "sidecar/store/segment_file.h"
#include "sidecar/store/segment_format.h"

namespace kvsidecar {

class OpenSegment {
 public:
  // `superblock` without segment, node and time; entries rounded as directory_entries_for does.
  OpenSegment(StoreParts& parts, Superblock superblock, uint64_t segment_bytes);
  ~OpenSegment();

  enum class State : uint8_t { kOpening, kOpen, kFailed };
  State state() const { return state_; }
  int error() const { return error_; }  // kFailed: why the file could not be made
  const SegmentFilePtr& file() const { return file_; }

  // Room for `entries` more entries and a slot of `bytes`?
  bool fits(uint64_t entries, uint64_t bytes) const;
  uint64_t room_to_stripe() const;  // bytes from the next free place to the stripe's border
  // Takes space and directory entries. The data's writer then calls appended() or given_up() once
  // per entry.
  uint64_t take(uint64_t entries, uint64_t bytes);
  // The slot's data was acknowledged (or it is a tombstone): enters the next group. `committed` is
  // called with kOk and the number, or with kNotStored.
  using Committed = std::function<void(Code status, uint32_t number)>;
  void appended(DirectoryEntry entry, bool durable, Committed committed);
  void given_up(uint64_t entries);

  void turn(uint64_t now_ns, bool closing);  // commits and syncs what is due
  void seal() { sealed_ = true; }
  bool sealed() const { return sealed_; }
  // Everything taken has ended. sealed: and the file is synced and cut to its length.
  bool idle() const;
  bool finished() const { return (sealed_ && closed_) || state_ == State::kFailed; }
  // Called when everything committed so far is on the device: 0 or errno.
  void sync(std::function<void(int error)> done);

 private:
  struct Pending {
    DirectoryEntry entry;
    bool durable = false;
    Committed committed;
  };
  void begin();
  void take_room(bool may_wait);
  void open();
  void create(int64_t fd);
  void allocate();
  void write_superblock();
  void fail(int error);
  void allocate_ahead();
  void commit();
  void committed(std::vector<Pending> group, int64_t result, uint64_t bytes);
  void report(Pending& pending, Code status);
  void start_sync();
  void synced(int error, std::vector<Pending> pages, std::vector<std::function<void(int)>> callers);
  void cut_to_length();

  StoreParts& parts_;
  Superblock superblock_;
  const uint64_t extent_bytes_;
  uint64_t limit_bytes_;
  SegmentFilePtr file_;
  State state_ = State::kOpening;
  int error_ = 0;
  uint64_t end_, allocated_ = 0;
  uint64_t entries_taken_ = 0;  // promised to data in flight, ready or committed
  uint64_t entries_in_flight_ = 0;
  uint32_t next_entry_ = 0;
  BouncePool::Buffer tail_;  // the directory block that is partly filled
  std::vector<Pending> ready_, unsynced_;
  std::vector<std::function<void(int)>> sync_callers_;
  uint64_t ready_since_ns_ = 0;
  bool committing_ = false, syncing_ = false, allocating_ = false;
  bool dirty_ = false, folder_synced_ = false, broken_ = false;
  bool sealed_ = false, closed_ = false;
  bool waits_for_room_ = false;
  uint64_t waits_since_ns_ = 0;
};

}  // namespace kvsidecar
