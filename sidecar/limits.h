// SPDX-License-Identifier: Apache-2.0
// What the configuration decides for the conductor: limits of the whole daemon, and what one peer
// may do. Plain values, made once by shell/config.cc and copied; nothing here is changed later.
// Times in nanoseconds, sizes in bytes, whatever unit the configuration file uses.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace kvsidecar {

// When a page goes to the store.
enum class Admission : uint8_t { kAtOnce, kSecondUse, kAtEviction };
// Bytes from the store and adopted slots are always checked (kStore, the least). kFirst: also each
// page of this epoch at its first get. kAlways: each page at each get.
enum class Verify : uint8_t { kAlways, kFirst, kStore };

struct Limits {
  uint32_t sessions_max = 256;
  uint32_t groups_max = 256;
  uint32_t namespaces_max = 4096;
  uint32_t regions_per_session = 1024;
  uint32_t layouts_per_session = 1024;
  uint64_t deadline_max_ns =
      600'000'000'000;  // a request's deadline may lie this far ahead at most

  uint64_t lease_max_ns = 60'000'000'000;
  uint64_t lease_pages_per_session = 16384;
  uint32_t lease_share_percent = 50;           // of the host pool's bytes, all leases together
  uint64_t parts_timeout_ns = 60'000'000'000;  // a page whose other parts don't come is dropped

  uint64_t chunk_bytes = 0;  // of the host pool, which a page must fit; 0 = as its chunks are
  uint64_t inline_copy_bytes = 512 * 1024;  // larger copies go to a copy worker

  Admission admission = Admission::kAtOnce;
  Verify verify = Verify::kStore;
  uint64_t store_capacity_bytes = 0;        // of all segments; 0 = no store
  uint64_t store_stall_ns = 2'000'000'000;  // an operation older than this opens the breaker
  uint32_t store_depth = 64;                // reads and writes with the store at once
  uint64_t write_behind_bytes = 1ull << 30;
  uint64_t write_bytes_per_s = 0;  // 0 = unlimited
};

// What one peer may do: the [[allow]] entry that its credentials matched, or the default.
struct Permissions {
  bool read = false, put = false, clear = false, admin = false;
  // Tenant salts that an attach may name; "*" = any. A namespace without a salt is always allowed.
  std::vector<std::string> tenant_salts;
  // Quotas; 0 = unlimited. They count per [[allow]] entry, summed over the sessions that matched
  // it.
  uint64_t pool_bytes_max = 0, store_bytes_max = 0, bytes_in_flight_max = 0, region_bytes_max = 0;
  uint32_t sessions_max = 0, namespaces_max = 1024;
  uint32_t entry = 0;  // which entry, for those sums; 0 = the default, 1 = the first [[allow]]
};

}  // namespace kvsidecar
