// SPDX-License-Identifier: Apache-2.0
// A histogram of latencies that one process writes and others read while it grows: counters in
// shared memory, 16 buckets to each doubling, so a percentile is right within 6 %. Zeroed memory is
// an empty one.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

namespace kvsidecar {

class LatencyHistogram {
 public:
  void add(uint64_t ns) { counts_[bucket_of(ns)].fetch_add(1, std::memory_order_relaxed); }
  // Adds the counts of `other` to this one.
  void merge(const LatencyHistogram& other) {
    for (size_t i = 0; i < counts_.size(); ++i)
      counts_[i].fetch_add(other.counts_[i].load(std::memory_order_relaxed),
                           std::memory_order_relaxed);
  }
  // The upper edge, in ns, of the bucket that holds the share; 0 when empty.
  uint64_t percentile(double share) const {
    uint64_t total = 0;
    for (const auto& count : counts_) total += count.load(std::memory_order_relaxed);
    const auto wanted = static_cast<uint64_t>(share * static_cast<double>(total));
    uint64_t seen = 0;
    for (size_t i = 0; i < counts_.size(); ++i) {
      seen += counts_[i].load(std::memory_order_relaxed);
      if (seen > wanted) return upper_edge(i);
    }
    return 0;
  }

 private:
  static constexpr size_t kSteps = 16;
  static size_t bucket_of(uint64_t ns) {
    if (ns < kSteps) return static_cast<size_t>(ns);
    const auto doublings = static_cast<size_t>(std::bit_width(ns)) - 5;  // ns >> it: 16..31
    return std::min(kBuckets - 1, (doublings + 1) * kSteps + (ns >> doublings) - kSteps);
  }
  static uint64_t upper_edge(size_t bucket) {
    if (bucket < kSteps) return bucket;
    const size_t doublings = bucket / kSteps - 1;
    return ((bucket % kSteps + kSteps + 1) << doublings) - 1;
  }
  static constexpr size_t kBuckets = 40 * kSteps;  // up to about 9 hours
  std::array<std::atomic<uint64_t>, kBuckets> counts_{};
};

}  // namespace kvsidecar
