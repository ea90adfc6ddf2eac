// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/device/manual_device.h"

namespace kvsidecar {

class ManualDevice::ManualQueue final : public CopyQueue {
 public:
  explicit ManualQueue(ManualDevice& device) : device_(device) {}
  uint64_t submit(Direction direction, std::span<const Piece> pieces,
                  std::span<uint64_t> leaves) override {
    KV_CHECK(!device_.in_flight_ && leaves.empty());
    Batch batch{device_.batches.size() + 1, direction, {pieces.begin(), pieces.end()}, 0};
    for (const Piece& piece : pieces) batch.bytes += piece.bytes;
    device_.batches.push_back(batch);
    device_.in_flight_ = true;
    return batch.ticket;
  }
  size_t poll(std::span<Done> out) override {
    if (device_.ended_.empty()) return 0;
    out[0] = device_.ended_.front();
    device_.ended_.pop_front();
    return 1;
  }

 private:
  ManualDevice& device_;
};

std::unique_ptr<CopyQueue> ManualDevice::make_queue() {
  return std::make_unique<ManualQueue>(*this);
}

void ManualDevice::end(Code status) {
  KV_CHECK(in_flight_);
  in_flight_ = false;
  if (status == Code::kOk)
    for (const Piece& piece : last().pieces) {
      std::byte* const engine = &static_cast<ManualRegion*>(piece.region)->memory[piece.offset];
      if (last().direction == Direction::kStore)
        std::memcpy(piece.host, engine, piece.bytes);
      else
        std::memcpy(engine, piece.host, piece.bytes);
    }
  ended_.push_back({last().ticket, status});
}

ManualRig::ManualRig(uint32_t blocks, uint32_t runs, uint64_t run_bytes, size_t capacity)
    : region(blocks * runs * run_bytes),
      host_memory(blocks * runs * run_bytes),
      claims(blocks),
      items(blocks),
      worker(device, clock, capacity, nullptr) {
  layout.blocks = blocks;
  layout.part_bytes = runs * run_bytes;
  for (uint32_t r = 0; r < runs; ++r)
    layout.runs.push_back({&region, r * blocks * run_bytes, run_bytes, run_bytes});
  for (uint32_t i = 0; i < blocks; ++i) {
    items[i].claim = claims.claim(i);
    items[i].host = host(i);
    items[i].bytes = layout.part_bytes;
    items[i].layout = &layout;
    items[i].block = i;
  }
}

CopyCommand ManualRig::command(CopyKind kind, uint64_t token, uint32_t first, uint32_t count) {
  return {kind, token, items.data() + first, count, &progress};
}

std::byte* ManualRig::engine(uint32_t block, uint32_t run) {
  return &region.memory[layout.runs[run].base + block * layout.runs[run].block_stride];
}

std::vector<uint64_t> ManualRig::completed() {
  std::vector<uint64_t> tokens;
  for (CopyDone done; worker.poll(done);) tokens.push_back(done.token);
  return tokens;
}

bool ManualRig::next_batch() {
  while (!device.in_flight())
    if (!worker.step()) return false;
  return true;
}

std::vector<uint64_t> ManualRig::run_out() {
  std::vector<uint64_t> tokens;
  while (worker.has_work() || device.in_flight()) {
    worker.step();
    if (device.in_flight()) device.end();
    for (const uint64_t token : completed()) tokens.push_back(token);
  }
  return tokens;
}

}  // namespace kvsidecar
