// SPDX-License-Identifier: Apache-2.0
#include "sidecar/store/usrbio/counter_sums.h"

namespace kvsidecar {
namespace {

constexpr std::atomic<uint64_t> StoreCounters::*kGauges[] = {
    &StoreCounters::used_bytes,    &StoreCounters::segments,        &StoreCounters::wanted_bytes,
    &StoreCounters::foreign_files, &StoreCounters::bad_superblocks, &StoreCounters::torn_entries,
    &StoreCounters::cut_pages};
constexpr std::atomic<bool> StoreCounters::*kFlags[] = {
    &StoreCounters::breaker_open, &StoreCounters::direct, &StoreCounters::uring};

}  // namespace

void CounterSums::publish(const StoreCounters& now, StoreCounters& to) const {
  for (size_t i = 0; i < std::size(kSums); ++i)
    (to.*kSums[i])
        .store(sums_[i] + (now.*kSums[i]).load(std::memory_order_relaxed),
               std::memory_order_relaxed);
  for (const auto gauge : kGauges)
    (to.*gauge).store((now.*gauge).load(std::memory_order_relaxed), std::memory_order_relaxed);
  for (const auto flag : kFlags)
    (to.*flag).store((now.*flag).load(std::memory_order_relaxed), std::memory_order_relaxed);
}

void CounterSums::add(const StoreCounters& over) {
  for (size_t i = 0; i < std::size(kSums); ++i)
    sums_[i] += (over.*kSums[i]).load(std::memory_order_relaxed);
}

}  // namespace kvsidecar
