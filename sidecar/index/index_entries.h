// SPDX-License-Identifier: Apache-2.0
// The index's page entries: chunks that never move, so that an EntryId is stable, and a list of
// free entries threaded through them. Pure; one owner.
#pragma once
#include <memory>
#include <vector>

#include "ipc/result.h"
#include "sidecar/index/index.h"

namespace kvsidecar {

class IndexEntries {
 public:
  // An entry that is nobody else's; its content is arbitrary.
  EntryId take() {
    ++taken_;
    if (free_ != kNoEntry) {
      const EntryId id = free_;
      free_ = (*this)[id].host_slot;
      return id;
    }
    if (used_ == chunks_.size() * kChunkEntries) {
      KV_CHECK(used_ < kNoEntry - kChunkEntries);
      chunks_.push_back(std::make_unique_for_overwrite<Chunk>());
    }
    return used_++;
  }

  void give_back(EntryId id) {
    --taken_;
    PageEntry& entry = (*this)[id];
    entry = PageEntry{};
    entry.host_slot = free_;
    free_ = id;
  }

  PageEntry& operator[](EntryId id) {
    KV_CHECK(id < used_);
    return chunks_[id / kChunkEntries]->entries[id % kChunkEntries];
  }
  const PageEntry& operator[](EntryId id) const {
    KV_CHECK(id < used_);
    return chunks_[id / kChunkEntries]->entries[id % kChunkEntries];
  }
  void prefetch(EntryId id) const {
    __builtin_prefetch(&chunks_[id / kChunkEntries]->entries[id % kChunkEntries]);
  }

  uint64_t taken() const { return taken_; }
  uint64_t memory_bytes() const {
    return chunks_.size() * sizeof(Chunk) + chunks_.capacity() * sizeof(chunks_[0]);
  }

 private:
  static constexpr uint32_t kChunkEntries = 4096;
  struct Chunk {
    PageEntry entries[kChunkEntries];
  };
  static_assert(sizeof(PageEntry) == 48);

  std::vector<std::unique_ptr<Chunk>> chunks_;
  uint32_t used_ = 0;  // entries ever taken
  uint64_t taken_ = 0;
  EntryId free_ = kNoEntry;
};

}  // namespace kvsidecar
