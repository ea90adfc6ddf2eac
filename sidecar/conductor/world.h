// SPDX-License-Identifier: Apache-2.0
// All state of the conductor in one place, and the hands that work on it: each module (puts, gets,
// lookups, …) is a set of functions over World. Conductor's thread only.
#pragma once
#include <functional>
#include <list>
#include <set>
#include <unordered_map>

#include "sidecar/conductor/history.h"
#include "sidecar/conductor/scrub.h"
#include "sidecar/conductor/session.h"
#include "sidecar/conductor/uses.h"
#include "sidecar/index/index.h"
#include "sidecar/store/segment_table.h"

namespace kvsidecar {

struct HashOfHash {
  size_t operator()(const Hash128& h) const { return static_cast<size_t>(h.low); }
};

// What an [[allow]] entry's sessions use together.
struct Account {
  uint64_t pool_bytes = 0, store_bytes = 0, bytes_in_flight = 0, region_bytes = 0;
  uint64_t store_bytes_max = 0;  // 0 = unlimited
  uint64_t writing_bytes = 0;    // on their way to the store
  uint32_t sessions = 0, namespaces = 0;
};

struct QueuedWrite {
  EntryId entry = kNoEntry;
  Hash128 hash;  // entry ids are used again: both must match
  uint64_t bytes = 0, queued_ns = 0;
};

struct World {
  World(const Parts& parts, const Limits& limits, uint64_t epoch, EventLog& log);
  ~World();  // regions close on the reaper, which is still there

  Parts parts;
  Limits limits;
  uint64_t epoch;
  EventLog& log;
  Counters count;
  History history;      // why pages went
  uint64_t now_ns = 0;  // taken once a turn

  Index index;
  SegmentTable segments;
  WaitingUses uses;
  // See namespaces.h. Whoever works with one holds it.
  std::unordered_map<Hash128, std::shared_ptr<NamespaceInfo>, HashOfHash> namespaces;
  std::vector<NamespaceInfo*> namespaces_by_number;  // null: a free number
  std::vector<uint32_t> namespace_numbers_free;
  std::unordered_map<Hash128, uint64_t, HashOfHash> clearing;  // highest generation asked for

  std::unordered_map<uint64_t, std::unique_ptr<Session>> sessions;
  std::vector<Session*> turn_order;  // live sessions, for fair turns
  size_t turn = 0;
  std::vector<Session*> unpublished, publishing;  // answers wait; publish_all's own
  std::unordered_map<uint32_t, Account> accounts;
  std::list<Group> groups;
  std::unordered_map<uint64_t, Lease> leases;
  std::set<std::pair<uint64_t, uint64_t>> lease_ends;  // (when, lease)
  uint64_t lease_pages = 0, lease_bytes = 0;

  std::unordered_map<Hash128, std::unique_ptr<Filling>, HashOfHash> fillings;
  // Those that nobody copies into, by their last activity: they wait for their other parts.
  std::set<std::pair<uint64_t, Hash128>> lonely;
  uint64_t lonely_bytes = 0;  // of their slots
  std::unordered_map<EntryId, std::unique_ptr<Fetch>> fetches;
  std::vector<OpRef> parked;                                        // wait for their fence
  std::unordered_map<uint64_t, std::unique_ptr<CopyBatch>> copies;  // by token
  std::vector<uint64_t> worker_bytes;            // outstanding at each copy worker
  uint64_t inline_left_bytes = 0;                // that this turn may still copy itself
  std::unordered_map<uint64_t, EntryId> checks;  // token -> fetch whose bytes a hash worker has
  std::deque<EntryId> checks_waiting;            // fetches that every hash worker was too full for
  struct Write {
    EntryId entry;
    bool durable;
  };
  std::unordered_map<uint64_t, Write> store_writes;  // token -> entry, pinned
  std::unordered_map<uint64_t, EntryId> store_reads, store_flushes;
  struct Writer {
    uint64_t segment = 0;  // where the last write went: later ones may be in it already
    uint32_t writes = 0;   // with the store
  };
  std::unordered_map<uint32_t, Writer> writers;  // by namespace number
  std::unordered_map<EntryId, std::vector<ItemRef>> durable_waiters;
  std::deque<QueuedWrite> write_queue;
  uint64_t write_queue_bytes = 0, writes_queued = 0;  // of pages that still wait
  uint32_t store_in_flight = 0;          // reads and writes
  uint32_t removals_away = 0;            // tombstones and unlinks with the store
  uint32_t unlinks_away = 0;             // of these
  uint64_t trim_again_ns = 0;            // an unlink failed: not before then
  std::deque<uint64_t> unlinks_waiting;  // segments to unlink: the queue was full
  std::deque<StoreLocation> burials_waiting;  // the same, of pages that were deleted while written
  double write_tokens_bytes = 0;         // token bucket of write_bytes_per_s
  uint64_t write_tokens_ns = 0;
  std::deque<std::unique_ptr<Errand>> errands_waiting, device_errands_waiting;  // a reaper was full
  uint32_t errands_away = 0;
  bool reaper_is_behind() const { return errands_waiting.size() >= 1024; }

  ScrubState scrub;  // scrub.h
  uint64_t last_token = 0, last_handle = 0, last_access = 0, last_session = 0;
  uint64_t next_sweep_ns = 0;  // leases, tickets, parts
  uint64_t next_beat_ns = 0;
  bool draining = false, scanned = true, any_session_ended = false;

  uint64_t new_token() { return ++last_token; }
  // Handles carry the epoch's low 16 bits, so that one of an earlier epoch is told from an unknown
  // one.
  uint64_t new_handle() { return (epoch << 48) | ++last_handle; }
  bool of_this_epoch(uint64_t handle) const { return (handle >> 48) == (epoch & 0xffff); }
  Status unknown_handle(const char* what, uint64_t handle) const;

  // Sends an errand to a reaper; when that is full it waits here.
  void send(std::unique_ptr<Errand> errand);
  void send_to_device(std::unique_ptr<Errand> errand);
};

}  // namespace kvsidecar
