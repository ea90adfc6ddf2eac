// SPDX-License-Identifier: Apache-2.0
#include "clients/cpp/staging.h"

#include <cstring>

#include "ipc/result.h"

namespace kvsidecar::clientlib {
namespace {

constexpr uint64_t kUnitBytes = 4096;

uint64_t round_up(uint64_t bytes) { return (bytes + kUnitBytes - 1) / kUnitBytes * kUnitBytes; }

}  // namespace

StagingSpace::StagingSpace(uint64_t bytes) : bytes_(bytes / kUnitBytes * kUnitBytes) {
  if (bytes_ > 0) free_[0] = bytes_;
}

std::optional<StagingSlot> StagingSpace::take(uint64_t bytes) {
  if (bytes == 0 || bytes > bytes_) return std::nullopt;
  const uint64_t wanted = round_up(bytes);
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    if (range->second < wanted) continue;
    const StagingSlot slot{range->first, wanted};
    const uint64_t rest = range->second - wanted;
    free_.erase(range);
    if (rest > 0) free_[slot.offset + wanted] = rest;
    return slot;
  }
  return std::nullopt;
}

void StagingSpace::give_back(const StagingSlot& slot) {
  KV_CHECK(slot.bytes > 0 && slot.offset + slot.bytes <= bytes_);
  const auto [added, fresh] = free_.emplace(slot.offset, slot.bytes);
  KV_CHECK(fresh);
  auto range = added;
  if (const auto next = std::next(range); next != free_.end()) {
    KV_CHECK(range->first + range->second <= next->first);
    if (range->first + range->second == next->first) {
      range->second += next->second;
      free_.erase(next);
    }
  }
  if (range == free_.begin()) return;
  const auto previous = std::prev(range);
  KV_CHECK(previous->first + previous->second <= range->first);
  if (previous->first + previous->second == range->first) {
    previous->second += range->second;
    free_.erase(range);
  }
}

void gather(std::span<const MemoryPiece> pieces, std::byte* staging) {
  for (const MemoryPiece& piece : pieces) {
    std::memcpy(staging, piece.memory, piece.bytes);
    staging += piece.bytes;
  }
}

void scatter(const std::byte* staging, std::span<const MemoryPiece> pieces) {
  for (const MemoryPiece& piece : pieces) {
    std::memcpy(piece.memory, staging, piece.bytes);
    staging += piece.bytes;
  }
}

}  // namespace kvsidecar::clientlib
