// SPDX-License-Identifier: Apache-2.0
// The store's counters over the lives of a mount: each life's FileStore counts from nothing. One
// owner (the store worker); what it writes any thread reads.
#pragma once
#include "sidecar/store/store_parts.h"

namespace kvsidecar {

class CounterSums {
 public:
  // Into `to`: the sums of all lives, and the gauges of this one.
  void publish(const StoreCounters& now, StoreCounters& to) const;
  void add(const StoreCounters& over);  // a life that is over

 private:
  static constexpr std::atomic<uint64_t> StoreCounters::*kSums[] = {
      &StoreCounters::bytes_written, &StoreCounters::bytes_read, &StoreCounters::write_errors,
      &StoreCounters::read_errors,   &StoreCounters::no_space,   &StoreCounters::breaker_trips};
  uint64_t sums_[std::size(kSums)] = {};
};

}  // namespace kvsidecar
