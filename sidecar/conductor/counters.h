// SPDX-License-Identifier: Apache-2.0
// Every counter of the daemon, declared once: name and help. The conductor alone adds; anybody may
// read. They add up: looked up = host + store + remote + miss, and put = stored + exists + refused
// + failed + abandoned, get = host + store + miss + failed.
#pragma once
#include <atomic>
#include <cstdint>

#define KV_COUNTERS(X)                                                                      \
  X(lookups, "Lookups answered")                                                            \
  X(pages_looked_up, "Pages asked for by lookups")                                          \
  X(pages_found_host, "Looked-up pages found in the host pool")                             \
  X(pages_found_store, "Looked-up pages found in the store")                                \
  X(pages_found_remote, "Looked-up pages found on another node")                            \
  X(pages_found_miss, "Looked-up pages not found")                                          \
  X(pages_put, "Pages of put requests, at completion")                                      \
  X(pages_put_stored, "Put pages (or parts) taken into the host pool")                      \
  X(pages_put_exists, "Put pages that were complete already")                               \
  X(pages_put_refused, "Put pages refused: queue full, no slot, quota, draining")           \
  X(pages_put_failed, "Put pages that failed: timeout, revoked, fault, invalid")            \
  X(pages_put_abandoned, "Put pages given up by the client during the copy")                \
  X(parts_put, "Parts stored while others of their page were missing")                      \
  X(pages_completed, "Pages that became complete and visible")                              \
  X(pages_get, "Pages of get requests, at completion")                                      \
  X(pages_get_host, "Got pages that were in the host pool")                                 \
  X(pages_get_store, "Got pages that were read from the store")                             \
  X(pages_get_miss, "Got pages that were absent, unreadable or corrupt")                    \
  X(pages_get_failed, "Got pages that failed: timeout, revoked, fault, busy, invalid")      \
  X(bytes_put, "Bytes copied from engines")                                                 \
  X(bytes_get, "Bytes copied to engines")                                                   \
  X(requests, "Requests taken from the rings")                                              \
  X(requests_refused, "Requests answered with an error as a whole")                         \
  X(sessions_opened, "Sessions opened")                                                     \
  X(sessions_ended_hostile, "Sessions ended because of a record or position that can't be") \
  X(sessions_ended_gone, "Sessions ended because the process or its socket was gone")       \
  X(busy_copy_queue, "Times a copy queue was full")                                         \
  X(busy_store_queue, "Times the store's queue was full")                                   \
  X(busy_hash_queue, "Times a hash queue was full")                                         \
  X(busy_reaper_queue, "Times a reaper's queue was full")                                   \
  X(busy_no_slot, "Times no host slot could be freed")                                      \
  X(pages_evicted, "Pages evicted from the host pool")                                      \
  X(writes_queued, "Pages queued for the store")                                            \
  X(writes_done, "Pages written to the store")                                              \
  X(writes_failed, "Pages that the store could not write")                                  \
  X(writes_dropped_full, "Queued writes dropped because the write-behind queue was full")   \
  X(writes_dropped_evicted, "Queued writes dropped because the page was evicted")           \
  X(writes_dropped_quota, "Writes not queued because of store_bytes_max")                   \
  X(not_stored, "Durable puts answered NOT_STORED")                                         \
  X(bytes_written, "Bytes written to the store")                                            \
  X(bytes_read, "Bytes read from the store")                                                \
  X(store_reads, "Pages read from the store")                                               \
  X(store_read_errors, "Store reads that failed")                                           \
  X(pages_corrupt, "Pages whose bytes did not prove themselves")                            \
  X(store_proof_failures, "Pages read from the store whose bytes did not prove themselves") \
  X(pages_prefetched, "Pages fetched into the host pool ahead of a get")                    \
  X(pages_verified, "Adopted pages whose bytes were checked")                               \
  X(pages_scrubbed, "Adopted pages given to a hash worker before anybody asked for them")   \
  X(pages_adopted, "Pages adopted from a predecessor's host pool")                          \
  X(pages_scanned, "Pages found in the store at start")                                     \
  X(segments_unlinked, "Segment files unlinked for space")                                  \
  X(pages_dropped_parts, "Incomplete pages dropped: their other parts did not come")        \
  X(leases_given, "Leases given")                                                           \
  X(leases_capped, "Lookups answered without the lease they asked for")                     \
  X(leases_expired, "Leases that ran out")                                                  \
  X(tickets_expired, "Lookups answered EXPIRED")                                            \
  X(clears, "Namespaces cleared")                                                           \
  X(namespaces_forgotten, "Namespaces that nothing used, forgotten to make room")           \
  X(deletes, "Pages deleted by request")                                                    \
  X(slots_quarantined, "Slots set aside until an operation that still owns them ends")

namespace kvsidecar {

// Single writer: a plain load and store instead of a locked add.
class Counter {
 public:
  void add(uint64_t n = 1) {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

struct Counters {
#define X(name, help) Counter name;
  KV_COUNTERS(X)
#undef X
};

}  // namespace kvsidecar
