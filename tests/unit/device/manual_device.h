// SPDX-License-Identifier: Apache-2.0
// A device whose batches end when the test says so, and as it says. It records what it was given.
// Regions are plain buffers. With ManualRig: one worker on it, a clock, claims, host memory.
#pragma once
#include <deque>
#include <memory>

#include "sidecar/device/copy_batch.h"
#include "sidecar/device/copy_worker.h"
#include "tests/unit/device/device_fixtures.h"

namespace kvsidecar {

class ManualRegion final : public Region {
 public:
  explicit ManualRegion(uint64_t bytes) : Region(bytes), memory(bytes) {}
  std::vector<std::byte> memory;
};

class ManualDevice final : public Device {
 public:
  struct Batch {
    uint64_t ticket;
    Direction direction;
    std::vector<Piece> pieces;
    uint64_t bytes;
  };
  const char* name() const override { return "manual"; }
  bool takes(int) const override { return true; }
  Result<std::unique_ptr<Region>> import(MemoryHandle handle) override {
    return std::unique_ptr<Region>(new ManualRegion(handle.bytes));
  }
  Status echo(Region&, uint64_t, uint64_t, uint64_t) override { return {}; }
  void close(std::unique_ptr<Region> region) override { region.reset(); }
  std::unique_ptr<CopyQueue> make_queue() override;
  bool hashes() const override { return false; }

  // Ends the batch that is in flight, copying its bytes when it ends well.
  void end(Code status = Code::kOk);
  bool in_flight() const { return in_flight_; }
  const Batch& last() const { return batches.back(); }
  std::vector<Batch> batches;  // all that were submitted

 private:
  class ManualQueue;
  bool in_flight_ = false;
  std::deque<CopyQueue::Done> ended_;
};

// One region of `blocks` blocks; a part is `runs` runs of `run_bytes`, run r of block b at
// (r * blocks + b) * run_bytes. Item i of a command is block i and host bytes i * part_bytes.
class ManualRig {
 public:
  ManualRig(uint32_t blocks, uint32_t runs, uint64_t run_bytes, size_t capacity = 8);

  // Items [first, first + count) as a command; the items stay here.
  CopyCommand command(CopyKind kind, uint64_t token, uint32_t first, uint32_t count);
  void submit(CopyKind kind, uint64_t token, uint32_t first, uint32_t count) {
    ASSERT_TRUE(worker.submit(command(kind, token, first, count)));
  }
  std::byte* engine(uint32_t block, uint32_t run);
  std::byte* host(uint32_t block) { return &host_memory[block * layout.part_bytes]; }
  // Steps until a batch is in flight. False when the worker has none left.
  bool next_batch();
  // Steps and ends batches well until the worker has nothing left; returns the tokens completed.
  std::vector<uint64_t> run_out();
  std::vector<uint64_t> completed();

  ManualDevice device;
  FakeClock clock;
  ManualRegion region;
  BlockLayout layout;
  std::vector<std::byte> host_memory;
  ClaimPage claims;
  std::vector<CopyItem> items;
  std::atomic<uint64_t> progress{0};
  CopyWorker worker;
};

}  // namespace kvsidecar
