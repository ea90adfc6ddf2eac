// SPDX-License-Identifier: Apache-2.0
// Counters of the USRBIO store for metrics; written by the store worker, read by any thread.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>

#include "sidecar/store/transfer_path.h"

namespace kvsidecar {

// Upper ends of the latency's buckets; one more takes what is above.
inline constexpr std::array<uint64_t, 9> kLatencyBucketsNs = {
    100'000,    300'000,     1'000'000,   3'000'000,     10'000'000,
    30'000'000, 100'000'000, 300'000'000, 1'000'000'000,
};

struct UsrbioClassCounters {
  std::atomic<uint64_t> queue{0};  // transfers that wait to be started
  std::atomic<uint64_t> depth{0};  // requests in the ring
  std::atomic<uint64_t> transfers{0}, bytes{0}, errors{0};
  std::atomic<uint64_t> short_moves{0};   // requests that moved less than asked
  std::atomic<uint64_t> staged_bytes{0};  // copied, because their memory isn't registered
  std::atomic<uint64_t> full{0};          // times that the ring took no more
  std::atomic<uint64_t> quarantined{0};   // transfers past their deadline that have not ended
  std::atomic<uint64_t> late{0};          // of those: that ended after all
  std::atomic<uint64_t> latency_ns{0};    // sum over all transfers
  std::array<std::atomic<uint64_t>, kLatencyBucketsNs.size() + 1> latency_buckets{};
};

inline constexpr size_t kTransferClasses = 3;
inline constexpr const char* kTransferClassNames[kTransferClasses] = {"demand_read", "prefetch",
                                                                      "write"};

struct UsrbioCounters {
  std::array<UsrbioClassCounters, kTransferClasses> classes;
  std::atomic<uint64_t> unknown_completions{0};  // of nothing that is in flight
  std::atomic<uint64_t> rings_replaced{0};
  std::atomic<uint64_t> mounts_lost{0};
  std::atomic<uint64_t> registered_bytes{0};  // of the host pool
  std::atomic<uint64_t> refused_memories{0};  // chunks that the fuse daemon can't use
  std::atomic<bool> up{false};

  UsrbioClassCounters& of(TransferClass kind) { return classes[static_cast<size_t>(kind)]; }
};

}  // namespace kvsidecar
