// SPDX-License-Identifier: Apache-2.0
// Staging: for engine memory that can't be shared. StagingSpace lends ranges of the staging memfd;
// gather and scatter copy between an item's pieces of engine memory and its range. Under the
// client's mutex.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>

namespace kvsidecar::clientlib {

// A contiguous piece of engine memory, in the part's byte order.
struct MemoryPiece {
  std::byte* memory = nullptr;
  uint64_t bytes = 0;
};

struct StagingSlot {
  uint64_t offset = 0, bytes = 0;
};

// First fit over 4 KiB units; neighbours that are free become one.
class StagingSpace {
 public:
  explicit StagingSpace(uint64_t bytes);
  uint64_t bytes() const { return bytes_; }
  std::optional<StagingSlot> take(uint64_t bytes);  // nothing when no free range is long enough
  void give_back(const StagingSlot& slot);          // only slots that take() made; each once

 private:
  uint64_t bytes_;
  std::map<uint64_t, uint64_t> free_;  // offset -> bytes
};

void gather(std::span<const MemoryPiece> pieces, std::byte* staging);
void scatter(const std::byte* staging, std::span<const MemoryPiece> pieces);

}  // namespace kvsidecar::clientlib
