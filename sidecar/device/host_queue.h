// SPDX-License-Identifier: Apache-2.0
// The host device's copy queue: keeps submitted batches and runs one per poll(), in the calling
// thread, under the SIGBUS guard. Belongs to one copy worker; made by HostDevice::make_queue.
#pragma once
#include <deque>
#include <vector>

#include "sidecar/device/device.h"
#include "sidecar/digest_variants/digest_variant.h"

namespace kvsidecar {

class HostDevice;

class HostQueue final : public CopyQueue {
 public:
  HostQueue(HostDevice& device, uint64_t shuffle_seed);
  ~HostQueue() override;
  uint64_t submit(Direction direction, std::span<const Piece> pieces,
                  std::span<uint64_t> leaves) override;
  size_t poll(std::span<Done> out) override;

 private:
  struct Batch {
    uint64_t ticket;
    Direction direction;
    std::span<const Piece> pieces;
    std::span<uint64_t> leaves;
  };
  Code run(const Batch& batch);
  size_t plan(const Batch& batch);
  void copy(const Batch& batch, size_t steps);
  void copy_leaves(const Batch& batch, size_t steps);
  void shuffle();
  uint64_t random();

  HostDevice& device_;
  uint64_t random_state_;
  uint64_t next_ticket_ = 1;
  std::deque<Batch> waiting_;
  // Scratch of the batch that runs: the order of its steps (a piece, or with leaves a leaf) and
  // each leaf's first piece.
  std::vector<uint32_t> order_;
  struct LeafStart {
    uint32_t piece;
    uint64_t into_piece;
  };
  std::vector<LeafStart> leaf_starts_;
  std::vector<CopySource> sources_;  // of one leaf
};

}  // namespace kvsidecar
