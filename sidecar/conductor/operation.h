// SPDX-License-Identifier: Apache-2.0
// One request in flight and its items. Conductor's thread only. Queues hold ItemRefs, so an
// operation lives until the last of them has let go, also when its session is gone; a settled item
// in a queue is skipped there.
#pragma once
#include <bit>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "ipc/layout.h"
#include "sidecar/device/copy_command.h"
#include "sidecar/index/index.h"
#include "sidecar/namespace_info.h"
#include "sidecar/pool/host_pool.h"

namespace kvsidecar {

struct Session;
struct RegionSlot;

enum class ItemState : uint8_t {
  kNew,        // not looked at yet (its fence was not reached)
  kFollowing,  // another item copies the same part of the same page
  kFetching,   // its page is being read or checked
  kResident,   // get: its page is in host memory; waits for the fence or, layered, for the other
               // items
  kReady,      // waits for its turn at a copy worker
  kCopying,    // a copy worker has it
  kDurable,    // copied or existing; waits for the store
  kSettled,
};

// A registered block layout: what the copy worker reads, and the regions it keeps open.
struct LayoutSlot {
  BlockLayout layout;
  std::vector<std::shared_ptr<RegionSlot>> regions;
};

struct OpItem {
  Claim claim;
  ItemState state = ItemState::kNew;
  Code status = Code::kInternal;
  bool pinned = false;      // holds a pin on `entry`
  bool from_store = false;  // get: the page was read for it
  EntryId entry = kNoEntry;
  const BlockLayout* layout = nullptr;  // with `block`; null: `pieces`
  uint32_t block = 0;
  uint32_t first_piece = 0, piece_count = 0;  // into Operation::pieces
};

struct Operation {
  Session* session = nullptr;  // outlives its operations
  RecordType type = RecordType::kNoop;
  uint64_t request = 0, deadline_ns = 0, received_ns = 0;
  bool answered = false;

  // put, get, delete
  std::shared_ptr<NamespaceInfo> space;
  uint64_t generation = 0;
  uint32_t part = 0;
  Coordinate coordinate;
  std::vector<std::byte> keys;
  uint32_t key_bytes = 0;
  std::vector<Hash128> hashes;
  std::vector<OpItem> items;
  uint32_t unsettled = 0;
  uint64_t bytes = 0;                                      // of all items, as counted in flight
  std::vector<std::shared_ptr<const LayoutSlot>> layouts;  // keeps them alive
  std::vector<std::shared_ptr<RegionSlot>> regions;
  std::vector<Piece> pieces;  // of explicit run lists; `host` is filled in when the copy is made

  std::atomic<uint64_t>* fence = nullptr;  // null = none
  uint64_t fence_value = 0;
  bool parked = false;  // in World::parked
  std::atomic<uint64_t>* progress = nullptr;

  bool durable = false;
  uint32_t position = 0, prompt_pages = 0;
  uint64_t access = 0;  // request number for eviction
  std::vector<std::byte> descriptions;
  std::vector<uint32_t> description_ends;
  SlotShape shape;

  Bytes key(uint32_t i) const { return Bytes(keys).subspan(size_t{i} * key_bytes, key_bytes); }
  Bytes description(uint32_t i) const {
    if (description_ends.empty()) return {};
    const uint32_t begin = i == 0 ? 0 : description_ends[i - 1];
    return Bytes(descriptions).subspan(begin, description_ends[i] - begin);
  }
  bool fence_reached() const {
    return fence == nullptr || fence->load(std::memory_order_acquire) >= fence_value;
  }
};

using OpRef = std::shared_ptr<Operation>;
struct ItemRef {
  OpRef op;
  uint32_t index = 0;
  OpItem& item() const { return op->items[index]; }
};

// A settled item stays in its queue until it is reached. Where that takes long (a stalled store)
// clients could ask and cancel without end: the settled ones go before the queue doubles.
template <typename ItemQueue>
void push_item(ItemQueue& queue, const ItemRef& ref) {
  constexpr size_t kKept = 64;
  if (queue.size() >= kKept && std::has_single_bit(queue.size()))
    std::erase_if(queue, [](const ItemRef& r) { return r.item().state == ItemState::kSettled; });
  queue.push_back(ref);
}

}  // namespace kvsidecar
