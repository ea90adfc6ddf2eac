// SPDX-License-Identifier: Apache-2.0
// What lies in the node's folder: reads every segment's superblock, then the directories, those of
// tombstones first, several in flight. Every file that isn't whole costs only the pages concerned.
// Foreign files are counted and left alone; own files that hold no page any more are unlinked.
// One owner (the store worker).
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <unordered_set>
#include <vector>

#include "sidecar/store/segment_file.h"
#include "sidecar/store/segment_format.h"
#include "sidecar/store/store.h"
#include "sidecar/store/tombstones.h"

namespace kvsidecar {

class SegmentScan {
 public:
  // `found` gets each segment with pages, once; `ended` comes last.
  SegmentScan(StoreParts& parts, Tombstones& tombstones,
              std::function<void(std::unique_ptr<FoundSegment>)> found,
              std::function<void(int error)> ended);
  ~SegmentScan();
  // Starts what may start; `held`: the one who listens has its hands full.
  void turn(bool held);
  void stop();  // nothing more is started; ends without judging what it has not seen
  bool ended() const { return ended_; }
  bool in_flight() const { return in_flight_ > 0; }

 private:
  struct File;
  struct Listing;
  using FilePtr = std::shared_ptr<File>;
  void list();
  static void read_folder(int folder_fd, Listing& listing);
  void listed(const Listing& listing);
  void open(const FilePtr& file);
  bool again(const FilePtr& file);
  void read_superblock(const FilePtr& file);
  void check_superblock(const FilePtr& file, int64_t got);
  void read_directory(const FilePtr& file);
  void take_entries(const FilePtr& file, int64_t got);
  void entry(File& file, const DirectoryEntry& entry);
  void finish(const FilePtr& file);
  void leave(const FilePtr& file, const std::string& why);
  void end();

  StoreParts& parts_;
  Tombstones& tombstones_;
  std::function<void(std::unique_ptr<FoundSegment>)> found_;
  std::function<void(int error)> ended_call_;
  std::deque<FilePtr> heads_, carriers_, pages_;  // still to be read, in this order
  std::unordered_set<uint64_t> left_alone_;
  size_t in_flight_ = 0, pages_in_flight_ = 0;
  bool listing_ = false;
  uint64_t segments_found_ = 0, pages_found_ = 0, torn_ = 0, foreign_ = 0, bad_ = 0, cut_ = 0;
  int error_ = 0;
  bool ended_ = false, carriers_done_ = false;
};

}  // namespace kvsidecar
