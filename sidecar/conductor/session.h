// SPDX-License-Identifier: Apache-2.0
// One attached client process, and everything that ends with it. Conductor's thread only.
#pragma once
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "sidecar/conductor/conductor.h"
#include "sidecar/conductor/group.h"
#include "sidecar/conductor/page_work.h"

namespace kvsidecar {

// An imported region. When the last layout or operation lets go, it is closed on the device's
// reaper and then an unregister that waits for it is answered. Until then its bytes count in the
// account; a later import is behind the close in the same queue.
struct RegionSlot {
  std::unique_ptr<Region> region;
  uint64_t handle = 0;
  struct World* world = nullptr;
  uint32_t account = 0;
  OpRef unregister;
  ~RegionSlot();
};

// A session's use of a namespace.
struct Attachment {
  std::shared_ptr<NamespaceInfo> space;
  uint64_t generation = 0;  // fixed at attach; other than the namespace's own = stale
  Coordinate coordinate;
  uint32_t description_bytes_max = 0;
  SlotShape shape;
};

// A lookup whose records are still arriving.
struct LookupAssembly {
  uint64_t request = 0, deadline_ns = 0, received_ns = 0, ticket = 0;
  std::vector<std::byte> keys;
  uint32_t key_bytes = 0, total = 0, lease_ms = 0;
  bool prefetch = false;
  std::vector<PoolPolicy> pools;
  std::vector<uint32_t> cells;  // keys of each record
};

struct AwaitedFd {
  OpRef op;
  RegisterRegionRequest request;
};

// A turn is measured in bytes of requests, of which a page with a key of the usual length has so
// many: keys that are shorter, or that are looked up in several pools, are no less work.
inline constexpr uint64_t kPageCost = 32;

// Where the chain of a prompt goes on: a put that begins there belongs to the lookup before it.
struct ChainEnd {
  uint64_t page = 0;  // low hash of the first missed page; 0 = by position only
  uint32_t position = 0;
  uint64_t request = 0;
};

struct Session {
  // Pages that a request of so many key bytes has made the conductor look at.
  void charge(uint64_t pages, uint64_t key_bytes) {
    const uint64_t cost = pages * kPageCost;
    if (cost > key_bytes) turn_debt += cost - key_bytes;
  }

  Session(uint64_t number, OpenedSession&& opened)
      : id(number),
        name(std::move(opened.name)),
        uid(opened.uid),
        pid(opened.pid),
        permissions(std::move(opened.permissions)),
        share(std::move(opened.share)),
        memory(share.memory()),
        in(memory),
        out(memory) {}

  uint64_t id;
  std::string name;
  uint32_t uid;
  int pid;
  Permissions permissions;
  SessionShare share;
  SessionMemory memory;
  SubmissionConsumer in;
  CompletionProducer out;

  bool ended = false;     // no record is taken and nothing is answered any more
  bool published = true;  // false: completions wait for publish()
  bool out_of_credit = false;
  bool memory_fault = false;                   // to be ended once its completions are out
  uint64_t earliest_deadline_ns = UINT64_MAX;  // lower bound over ops
  uint64_t bytes_in_flight = 0;
  uint64_t turn_debt = 0;  // work taken beyond what its requests' bytes say, see kPageCost

  std::unordered_map<uint64_t, OpRef> ops;  // by request number
  std::optional<LookupAssembly> lookup;
  std::optional<uint64_t> dropped_lookup;  // answered already: its further records are passed over
  std::unordered_map<uint64_t, UniqueFd> pending_fds;
  // Register-region requests whose fd has not come yet: ring and socket keep no common order.
  std::unordered_map<uint64_t, AwaitedFd> awaited_fds;
  std::unordered_map<uint64_t, Attachment> attachments;
  std::unordered_map<uint64_t, std::shared_ptr<RegionSlot>> regions;
  std::unordered_map<uint64_t, std::shared_ptr<const LayoutSlot>> layouts;
  uint64_t region_bytes = 0;
  uint32_t importing = 0;             // region errands away
  std::deque<ItemRef> loads, stores;  // ready, in order
  uint64_t load_deficit = 0, store_deficit = 0;

  Group* group = nullptr;
  uint16_t rank = 0;
  uint64_t lease_pages = 0;
  std::deque<ChainEnd> chain_ends;
  std::string text;  // snapshot that stat and why answers are cut from
};

}  // namespace kvsidecar
