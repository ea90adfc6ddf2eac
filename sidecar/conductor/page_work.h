// SPDX-License-Identifier: Apache-2.0
// Pages that are on their way: being put together from parts, being read or checked, being copied.
// Conductor's thread only.
#pragma once
#include <deque>
#include <memory>
#include <vector>

#include "sidecar/conductor/operation.h"
#include "sidecar/pool/host_pool.h"

namespace kvsidecar {

// A page that isn't complete: it has a FILLING slot and is in no index.
struct Filling {
  struct Part {
    enum State : uint8_t { kEmpty, kCopying, kDone } state = kEmpty;
    uint64_t digest = 0;
    std::deque<ItemRef> followers;  // other writers of this part, in order of arrival
  };
  Hash128 hash;
  std::shared_ptr<NamespaceInfo> space;
  uint64_t generation = 0;
  std::vector<std::byte> key, description;
  SlotId slot = kNoSlot;
  std::vector<Part> parts;
  uint32_t done = 0, copying = 0;
  uint64_t last_activity_ns = 0;
  uint32_t account = 0;
  PageAccess access;
};

// A page that is read from the store, or an adopted page whose bytes are checked.
struct Fetch {
  EntryId entry = kNoEntry;  // pinned by the fetch
  SlotId slot = kNoSlot;
  bool from_store = false;  // else: check what lies in the slot
  StoreLocation location;   // it is read from
  uint64_t digest = 0;      // of the page when it began
  SlotShape shape;
  std::vector<ItemRef> waiters;  // empty: a prefetch
  std::shared_ptr<PageRecord> record;
};

// One command at a copy worker.
struct CopyBatch {
  CopyCommand command;
  std::vector<CopyItem> items;
  std::vector<ItemRef> refs;
  uint64_t bytes = 0;
  size_t worker = 0;
};

}  // namespace kvsidecar
