// SPDX-License-Identifier: Apache-2.0
// Deleted pages whose segment still exists. A tombstone is a directory entry in a segment of its
// own kind (no namespace, no pages), this node's open one; it counts as long as its target segment
// exists. A carrier whose tombstones have all lost their target is unlinked; before a carrier with
// live ones goes, they are appended again. One owner (the store worker).
#pragma once
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "sidecar/store/open_segment.h"
#include "sidecar/store/store.h"

namespace kvsidecar {

class Tombstones {
 public:
  explicit Tombstones(StoreParts& parts);
  // Appends one for the page; `done` comes when its entry is written (durable: and synced).
  void add(StoreLocation page, const Hash128& hash, bool durable,
           std::function<void(Code status)> done);
  // From a scan.
  void found(uint64_t carrier, StoreLocation page, const Hash128& hash);
  void found_carrier(uint64_t carrier);
  void keep_carrier(uint64_t carrier) { live_in_carrier_.erase(carrier); }  // never unlink it
  bool is_carrier(uint64_t segment) const { return live_in_carrier_.count(segment) > 0; }
  bool covers(StoreLocation page) const;
  // The target segment is gone: its tombstones are forgotten; carriers left empty are unlinked.
  void target_unlinked(uint64_t segment);
  // Targets that a scan didn't find are gone.
  void forget_targets_but(const std::function<bool(uint64_t)>& exists);
  // Appends the live tombstones of earlier lives to the open carrier and unlinks the old ones.
  void carry_on();
  // The same for one carrier; `done` with 0 or errno.
  void unlink_carrier(uint64_t carrier, std::function<void(int error)> done);

  void turn(uint64_t now_ns, bool closing);
  void seal();
  void sync(const std::function<void(int error)>& each, size_t& calls);
  bool idle() const;
  bool finished() const;
  void fail_waiting();

 private:
  struct Tombstone {
    uint32_t slot;
    Hash128 hash;
    uint64_t carrier;
  };
  struct Waiting {
    StoreLocation page;
    Hash128 hash;
    bool durable;
    std::function<void(Code)> done;
  };
  void append(Waiting waiting);
  void drop_from_carrier(uint64_t carrier);
  void unlink_if_empty(uint64_t carrier);

  StoreParts& parts_;
  std::unordered_map<uint64_t, std::vector<Tombstone>> by_target_;
  std::unordered_map<uint64_t, uint64_t> live_in_carrier_;
  std::vector<Waiting> waiting_;
  std::shared_ptr<OpenSegment> current_;
  std::vector<std::shared_ptr<OpenSegment>> sealed_;
};

}  // namespace kvsidecar
