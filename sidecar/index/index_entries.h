// SPDX-License-Identifier: Apache-2.0
// The index's page entries: chunks that never move, so that an EntryId is stable, and a list of
// free entries threaded through them. From a million entries on they lie in huge pages. Pure; one
// owner.
#pragma once
#include <memory>
#include <vector>

#include "ipc/result.h"
#include "sidecar/huge_memory.h"
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
    if (used_ == chunks_.size() * kChunkEntries) add_chunks();
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
    return chunks_[id / kChunkEntries][id % kChunkEntries];
  }
  const PageEntry& operator[](EntryId id) const {
    KV_CHECK(id < used_);
    return chunks_[id / kChunkEntries][id % kChunkEntries];
  }
  void prefetch(EntryId id) const {
    __builtin_prefetch(&chunks_[id / kChunkEntries][id % kChunkEntries]);
  }

  uint64_t taken() const { return taken_; }
  // Of a block of huge pages only those count that have been touched.
  uint64_t memory_bytes() const {
    uint64_t bytes = small_.size() * kChunkBytes + chunks_.capacity() * sizeof(chunks_[0]);
    if (!huge_.empty()) {
      const uint64_t entries = used_ - small_.size() * kChunkEntries;
      constexpr uint64_t kPage = HugeMemory::kPageBytes;
      bytes += (entries * sizeof(PageEntry) + kPage - 1) / kPage * kPage;
    }
    return bytes;
  }

 private:
  static constexpr uint32_t kChunkEntries = 4096;
  static constexpr uint64_t kChunkBytes = kChunkEntries * sizeof(PageEntry);
  static constexpr uint32_t kBlockChunks = 32;     // together three huge pages
  static constexpr uint32_t kHugeFrom = 1u << 20;  // entries: below, half a page is too much waste
  static_assert(sizeof(PageEntry) == 48);
  static_assert(kBlockChunks * kChunkBytes == 3 * HugeMemory::kPageBytes);

  void add_chunks() {
    KV_CHECK(used_ < kNoEntry - kBlockChunks * kChunkEntries);
    if (used_ < kHugeFrom) {
      small_.push_back(std::make_unique_for_overwrite<PageEntry[]>(kChunkEntries));
      return chunks_.push_back(small_.back().get());
    }
    huge_.emplace_back(kBlockChunks * kChunkBytes);
    auto* const entries = reinterpret_cast<PageEntry*>(huge_.back().data());
    for (uint32_t i = 0; i < kBlockChunks; ++i) chunks_.push_back(entries + i * kChunkEntries);
  }

  std::vector<PageEntry*> chunks_;  // into those below
  std::vector<std::unique_ptr<PageEntry[]>> small_;
  std::vector<HugeMemory> huge_;
  uint32_t used_ = 0;  // entries ever taken
  uint64_t taken_ = 0;
  EntryId free_ = kNoEntry;
};

}  // namespace kvsidecar
