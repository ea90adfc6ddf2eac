// SPDX-License-Identifier: Apache-2.0
// Writes the pages of one namespace and generation: keeps its open segment, packs small pages into
// groups, rolls to the next segment when one is full. Each page is reported exactly once, however
// late. One owner (the store worker).
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "sidecar/store/open_segment.h"
#include "sidecar/store/store.h"

namespace kvsidecar {

struct PendingWrite {
  StoreCommand command;
  std::function<void(Code status, StoreLocation location, uint64_t slot_bytes)> done;
};
using PendingWritePtr = std::unique_ptr<PendingWrite>;

class SegmentWriter {
 public:
  SegmentWriter(StoreParts& parts, std::vector<std::byte> encoded, uint64_t generation,
                uint64_t page_bytes);
  void write(PendingWritePtr write);
  // Starts what can be started. `closing`: what is ready is committed without waiting for company.
  void turn(uint64_t now_ns, bool closing);
  void fail_waiting();  // what no I/O was started for ends kNotStored
  // The open segment takes no more (its file is about to be unlinked, or the store closes).
  void seal();
  void sync(const std::function<void(int error)>& each, size_t& calls);
  bool owns(uint64_t segment) const;
  bool idle() const;      // nothing waits, nothing is in flight
  bool finished() const;  // idle, and every segment is closed
  uint64_t last_use_ns() const { return last_use_ns_; }

 private:
  bool segment_ready(const PendingWrite& next);
  void open_next(const PendingWrite& next);
  void start_large(PendingWritePtr write);
  void start_group();
  void end(PendingWritePtr write, Code status, uint32_t number, uint64_t slot_bytes,
           uint64_t segment);
  static DirectoryEntry entry_of(const StoreCommand& command, uint64_t offset);

  StoreParts& parts_;
  const std::vector<std::byte> encoded_;
  const uint64_t generation_, page_bytes_;
  const bool packed_;
  std::deque<PendingWritePtr> waiting_;
  std::shared_ptr<OpenSegment> current_;
  std::vector<std::shared_ptr<OpenSegment>> sealed_;
  uint32_t groups_in_flight_ = 0;
  uint64_t last_use_ns_ = 0;
};

}  // namespace kvsidecar
