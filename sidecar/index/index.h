// SPDX-License-Identifier: Apache-2.0
// The index: page hash -> where the page is. Only complete pages are in it; everything in it is a
// hint that the page must prove. Pure; one owner (the conductor). At most 64 bytes per page, all
// told. Grows shard by shard, so no single insert stalls.
#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "ipc/identity.h"

namespace kvsidecar {

using EntryId = uint32_t;  // stable while the page is in the index
inline constexpr EntryId kNoEntry = 0xffffffffu;
inline constexpr uint32_t kNowhere = 0xffffffffu;

enum PageFlag : uint16_t {
  kUnverified = 1,   // host bytes were adopted from a predecessor and not yet checked
  kWriteQueued = 2,  // waits in the write-behind queue
  kWriting = 4,      // the store reads the slot now: pinned
  kDurable = 8,      // must not be evicted until stored or failed
  kDoomed = 32,      // deleted while pinned: a miss for everybody, gone at the last unpin
  kChecked = 64,     // its host bytes were compared with its digest in this epoch
  kImported = 128,   // no engine put it: its description says where it came from
};

// What a lookup reads comes first: three in four entries have it in one line of the cache.
struct PageEntry {
  Hash128 hash;
  uint32_t host_slot = kNowhere;  // SlotId
  uint32_t segment = kNowhere;    // SegmentTable's number
  uint16_t flags = 0;
  uint16_t store_account = 0;            // that its store copy is charged to
  uint32_t namespace_number = kNowhere;  // NamespaceInfo::number
  uint32_t store_slot = 0;
  uint32_t pins = 0;    // leases, gets and I/O in flight: not evictable while > 0
  uint64_t digest = 0;  // of the page
};

class Index {
 public:
  Index();
  ~Index();
  EntryId find(const Hash128& hash) const;  // kNoEntry = absent
  void find(std::span<const Hash128> hashes,
            std::span<EntryId> out) const;  // prefetches; for lookups
  EntryId insert(const Hash128& hash);      // must be absent
  void erase(EntryId id);
  PageEntry& operator[](EntryId id);
  const PageEntry& operator[](EntryId id) const;
  uint64_t size() const;
  uint64_t memory_bytes() const;
  void reserve(uint64_t pages);  // before a scan of known size

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvsidecar
