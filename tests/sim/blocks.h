// SPDX-License-Identifier: Apache-2.0
// An engine's blocks of one space, and what each must hold: nobody but a get that was not revoked
// may change one.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tests/sim/content.h"
#include "tests/support/fakes.h"

namespace kvsidecar::sim {

class Blocks {
 public:
  Blocks() = default;
  Blocks(std::span<std::byte> memory, uint64_t block_bytes)
      : memory_(memory), block_bytes_(block_bytes), blocks_(memory.size() / block_bytes) {}

  bool any() const { return !blocks_.empty(); }
  std::span<std::byte> bytes(uint32_t block) const {
    return memory_.subspan(block * block_bytes_, block_bytes_);
  }
  std::optional<uint32_t> take(testing::SeededRandom& random) {
    const auto start = static_cast<uint32_t>(random.below(blocks_.size()));
    for (uint32_t i = 0; i < blocks_.size(); ++i) {
      const uint32_t block = (start + i) % static_cast<uint32_t>(blocks_.size());
      if (blocks_[block].taken) continue;
      blocks_[block].taken = true;
      return block;
    }
    return std::nullopt;
  }
  void give(uint32_t block) { blocks_[block].taken = false; }
  // The engine writes the block.
  void write(uint32_t block, uint64_t id) {
    stamp(bytes(block), id);
    blocks_[block].stamp = id;
  }
  // The daemon may have: `id` is what it holds now, 0 = anything.
  void written(uint32_t block, uint64_t id) { blocks_[block].stamp = id; }

  bool holds_its_own(uint32_t block) const {
    return blocks_[block].stamp == 0 || stamped(bytes(block)) == blocks_[block].stamp;
  }
  // A block that changed though it was not the daemon's to change, or nothing.
  std::string check() const {
    for (uint32_t block = 0; block < blocks_.size(); ++block)
      if (!blocks_[block].taken && !holds_its_own(block))
        return "block " + std::to_string(block) + " was changed while it was the engine's";
    return {};
  }

 private:
  struct Block {
    uint64_t stamp = 0;
    bool taken = false;
  };
  std::span<std::byte> memory_;
  uint64_t block_bytes_ = 8;
  std::vector<Block> blocks_;
};

}  // namespace kvsidecar::sim
