// SPDX-License-Identifier: Apache-2.0
// How transfers end: as they should, late, or with their mount.
#include <algorithm>
#include <cerrno>

#include "sidecar/store/usrbio/transfers.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kWatchNs = 10'000'000;

void count_latency(UsrbioClassCounters& count, uint64_t took_ns) {
  const auto* bucket =
      std::lower_bound(kLatencyBucketsNs.begin(), kLatencyBucketsNs.end(), took_ns);
  const auto number = static_cast<size_t>(bucket - kLatencyBucketsNs.begin());
  count.latency_buckets[number].fetch_add(1, std::memory_order_relaxed);
  count.latency_ns.fetch_add(took_ns, std::memory_order_relaxed);
}

}  // namespace

void UsrbioTransfers::finish(MovingTransfer& m, int64_t result) {
  UsrbioClassCounters& count = counters_.of(m.kind);
  if (m.quarantined) {
    --quarantined_;
    if (m.use != nullptr) --m.use->lost;
    count.quarantined.fetch_sub(1, std::memory_order_relaxed);
    count.late.fetch_add(1, std::memory_order_relaxed);
  }
  if (!m.done) {
    count.transfers.fetch_add(1, std::memory_order_relaxed);
    if (result < 0) count.errors.fetch_add(1, std::memory_order_relaxed);
    if (result > 0) count.bytes.fetch_add(static_cast<uint64_t>(result), std::memory_order_relaxed);
    count_latency(count, clock_.now_ns() - m.begun_ns);
  }
  const auto at = std::find_if(active_.begin(), active_.end(),
                               [&](const auto& active) { return active.get() == &m; });
  KV_CHECK(at != active_.end());
  const auto ended = std::move(*at);
  *at = std::move(active_.back());
  active_.pop_back();
  if (ended->done) return ended->done(result);
  ready_.push_back({ended->user, result});
}

uint64_t UsrbioTransfers::oldest_ns() const {
  uint64_t oldest = 0;
  for (const auto& m : active_)
    if (!m->quarantined && (oldest == 0 || m->begun_ns < oldest)) oldest = m->begun_ns;
  return oldest;
}

void UsrbioTransfers::note_waiting(TransferClass kind, size_t count) {
  counters_.of(kind).queue.store(count, std::memory_order_relaxed);
}

void UsrbioTransfers::watch(uint64_t now_ns) {
  if (now_ns < next_watch_ns_) return;
  next_watch_ns_ = now_ns + kWatchNs;
  for (const auto& m : active_) {
    if (m->quarantined || m->outstanding == 0 || now_ns < m->begun_ns + options_.lost_ns) continue;
    m->quarantined = true;
    ++quarantined_;
    ++m->use->lost;
    counters_.of(m->kind).quarantined.fetch_add(1, std::memory_order_relaxed);
  }
}

std::optional<TransferClass> UsrbioTransfers::stuck() const {
  if (lost_since_ns_ != 0) return std::nullopt;
  for (size_t i = 0; i < kTransferClasses; ++i)
    if (lanes_[i].stuck()) return static_cast<TransferClass>(i);
  return std::nullopt;
}

Status UsrbioTransfers::ring_fault(TransferClass kind) const {
  const RingUse& use = *lanes_[static_cast<size_t>(kind)].current;
  return use.ring == nullptr ? Status() : use.ring->fault();
}

void UsrbioTransfers::retire_ring(TransferClass kind) {
  RingLane& l = lane(kind);
  l.retired.push_back(std::exchange(l.current, std::make_unique<RingUse>()));
  l.refused = l.unsubmitted = false;
}

void UsrbioTransfers::set_ring(TransferClass kind, std::unique_ptr<usrbio::Ring> ring) {
  lane(kind).current->ring = std::move(ring);
  counters_.rings_replaced.fetch_add(1, std::memory_order_relaxed);
}

size_t UsrbioTransfers::lost_writes() const {
  const RingLane& writes = lanes_[static_cast<size_t>(TransferClass::kWrite)];
  size_t lost = writes.current->lost;
  for (const auto& use : writes.retired) lost += use->lost;
  return lost;
}

void UsrbioTransfers::mount_lost() {
  if (lost_since_ns_ == 0) lost_since_ns_ = std::max<uint64_t>(clock_.now_ns(), 1);
}

void UsrbioTransfers::end_all() {
  requests_.take_all([this](const Request& request) {
    if (request.staged != nullptr) staging_.give(request.staged);
    --request.use->outstanding;
  });
  for (RingLane& l : lanes_) l.waiting.clear();
  while (!active_.empty()) finish(*active_.front(), -ENOTCONN);
}

}  // namespace kvsidecar
