// SPDX-License-Identifier: Apache-2.0
// The node's segment files as the store knows them: where each slot lies, and an open descriptor
// for those in use. One owner (the store worker).
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "ipc/os.h"
#include "sidecar/store/slot_places.h"
#include "sidecar/store/store_parts.h"

namespace kvsidecar {

// Shared by the table and by I/O in flight: the descriptor closes when both have let go.
struct SegmentFile {
  explicit SegmentFile(FileDoor* through) : door(through) {}
  ~SegmentFile() { close(); }
  SegmentFile(const SegmentFile&) = delete;
  SegmentFile& operator=(const SegmentFile&) = delete;
  void close();

  FileDoor* const door;
  uint64_t id = 0;
  uint64_t page_bytes = 0;
  uint64_t file_bytes = 0;  // counted in used_bytes
  UniqueFd fd;
  bool unlinked = false;
  uint64_t last_use = 0;
  SlotPlaces slots;
  std::vector<std::function<void(int error)>> waiting_for_open;
};
using SegmentFilePtr = std::shared_ptr<SegmentFile>;

class SegmentFiles {
 public:
  explicit SegmentFiles(StoreParts& parts, size_t open_max = 512);
  SegmentFilePtr find(uint64_t id) const;  // null = unknown
  SegmentFilePtr add(uint64_t id, uint64_t page_bytes);
  // Calls `ready` with 0 once file->fd is open, or with the errno; at once where it is open.
  void with_open(const SegmentFilePtr& file, bool patient, std::function<void(int error)> ready);
  // Forgets the segment (its slots read as misses from here on) and unlinks the file. A file that
  // is gone already counts as unlinked; one that can't be unlinked stays counted and is tried again
  // with the next.
  void unlink(uint64_t id, std::function<void(int error)> done);
  void forget(uint64_t id);  // the file stays, but isn't ours
  void set_file_bytes(SegmentFile& file, uint64_t bytes);
  // A descriptor that the kernel opened for it; `ready` once it can be used.
  void take_fd(const SegmentFilePtr& file, int fd, std::function<void(int error)> ready);
  size_t count() const { return files_.size(); }

 private:
  void close_idle();
  void remove(const SegmentFilePtr& file, std::function<void(int error)> done);
  StoreParts& parts_;
  const size_t open_max_;
  size_t opened_ = 0;
  uint64_t uses_ = 0;
  std::unordered_map<uint64_t, SegmentFilePtr> files_;
  std::vector<SegmentFilePtr> left_over_;  // unlinked for us, but the files are still there
};

}  // namespace kvsidecar
