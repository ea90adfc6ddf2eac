// SPDX-License-Identifier: Apache-2.0
// One command on its way through the device, cut into batches: which items are claimed when, which
// pieces come next, what an outcome means for the items. Knows claims and the clock's reading, no
// queue and no device. Owned by a copy worker.
//
// Claims. An item is claimed (QUEUED -> COPYING) when its first batch is made, which is submitted
// at once; an item whose claim is lost, or whose deadline has passed, never gets into a batch. It
// stays COPYING until the batch with its last byte is done.
#pragma once
#include <vector>

#include "sidecar/device/copy_command.h"
#include "sidecar/digest.h"

namespace kvsidecar {

inline constexpr uint64_t kBatchBytes = 8ull << 20;
// A batch takes no further item once it has this many pieces.
inline constexpr size_t kBatchPieces = 4096;
static_assert(kBatchBytes % kLeafBytes == 0);

class RunningCommand {
 public:
  // `hashing`: the device makes leaf digests while it stores; a batch then holds pieces of one
  // part, beginning at a leaf boundary.
  RunningCommand(const CopyCommand& command, bool hashing);

  // Makes the next batch. False when nothing is left: every item has its status then. A batch may
  // be empty (all its items have 0 bytes): settle it without a device.
  bool next_batch(uint64_t now_ns);
  Direction direction() const;
  std::span<const Piece> pieces() const { return pieces_; }
  std::span<uint64_t> leaves();  // of this batch; empty unless the device hashes what it stores
  uint64_t batch_bytes() const { return batch_bytes_; }
  // What became of the batch: moves claims, sets statuses and digests, raises progress.
  void settle(Code outcome);
  uint64_t token() const { return command_.token; }

 private:
  enum class Step : uint8_t { kWaiting, kCopying, kSettled };
  struct Progress {
    Step step = Step::kWaiting;
    uint64_t done_bytes = 0;  // put into batches so far
  };

  bool next_plain_batch(uint64_t now_ns);
  bool next_layer_batch(uint64_t now_ns);
  bool may_copy(uint32_t item, uint64_t now_ns);
  bool claim(CopyItem& item, uint64_t now_ns);
  void lose(uint32_t item, Code status);
  void next_item();
  bool add_run(uint32_t item);
  void add(std::byte* host, Region* region, uint64_t offset, uint64_t bytes);
  bool fits_more() const { return batch_bytes_ < kBatchBytes && pieces_.size() < kBatchPieces; }
  void finish(uint32_t item);
  void fail(uint32_t item, Code outcome);

  const CopyCommand command_;
  const bool hashing_;
  std::vector<Progress> items_;
  // Where the next batch begins: item, its run (kGetLayered: the layer), and how far into that run.
  uint32_t item_ = 0;
  uint32_t run_ = 0;
  uint64_t into_run_ = 0;
  uint32_t copying_ = 0;  // items
  bool whole_ = true;     // no item was lost so far: progress may still rise
  // The batch. It may hold bytes of the items first_item_ to end_item_ that are kCopying.
  std::vector<Piece> pieces_;
  uint64_t batch_bytes_ = 0;
  uint32_t first_item_ = 0, end_item_ = 0;
  bool ends_layer_ = false;
  std::vector<uint64_t> leaves_;  // of the part that is stored
  uint64_t first_leaf_ = 0;       // of the batch
};

}  // namespace kvsidecar
