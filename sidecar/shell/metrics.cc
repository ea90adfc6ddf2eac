// SPDX-License-Identifier: Apache-2.0
#include "sidecar/shell/metrics.h"

#include <prometheus/collectable.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <iterator>
#include <mutex>

#include "sidecar/shell/usrbio_metrics.h"
#include "sidecar/store/store_parts.h"

namespace kvsidecar {
namespace {

prometheus::MetricFamily counter_family(const char* name, const char* help, uint64_t value) {
  prometheus::MetricFamily family;
  family.name = std::string("kvsidecar_") + name + "_total";
  family.help = help;
  family.type = prometheus::MetricType::Counter;
  family.metric.resize(1);
  family.metric[0].counter.value = static_cast<double>(value);
  return family;
}

prometheus::MetricFamily gauge_family(const char* name, const char* help, uint64_t value) {
  prometheus::MetricFamily family;
  family.name = std::string("kvsidecar_") + name;
  family.help = help;
  family.type = prometheus::MetricType::Gauge;
  family.metric.resize(1);
  family.metric[0].gauge.value = static_cast<double>(value);
  return family;
}

class CounterCollector final : public prometheus::Collectable {
 public:
  explicit CounterCollector(const Counters& counters) : counters_(counters) {}
  std::vector<prometheus::MetricFamily> Collect() const override {
    std::vector<prometheus::MetricFamily> all;
#define X(name, help) all.push_back(counter_family(#name, help, counters_.name.value()));
    KV_COUNTERS(X)
#undef X
    return all;
  }

 private:
  const Counters& counters_;
};

std::vector<prometheus::MetricFamily> gauge_families(const MetricsSnapshot& s) {
  const Gauges& g = s.gauges;
  const struct {
    const char* name;
    const char* help;
    uint64_t value;
  } all[] = {
      {"epoch", "This life of the daemon", s.epoch},
      {"chunks", "Chunks of the host pool that are in use", s.chunks},
      {"chunks_planned", "Chunks that the host pool will have", s.chunks_planned},
      {"draining", "1 while the daemon is shutting down", g.draining ? 1u : 0u},
      {"store_scanned", "1 once the store's directories have been read", g.scanned ? 1u : 0u},
      {"pool_bytes", "Bytes of the host pool", g.pool.bytes},
      {"pool_spans", "Spans of the host pool", g.pool.spans},
      {"pool_spans_empty", "Spans that serve no page size now", g.pool.spans_empty},
      {"pool_slots_full", "Slots that hold a whole page", g.pool.slots_full},
      {"pool_slots_filling", "Slots being filled", g.pool.slots_filling},
      {"pool_slots_quarantined", "Slots that an operation still owns", g.pool.slots_quarantined},
      {"pool_slots_free", "Free slots in spans that serve a page size", g.pool.slots_free},
      {"pool_page_bytes", "Bytes of the pages in the host pool", g.pool.page_bytes},
      {"pool_table_bytes", "Bytes of slot tables and span tails", g.pool.table_bytes},
      {"pool_rounding_bytes", "Slot bytes beyond their pages' bytes", g.pool.rounding_bytes},
      {"pool_stranded_bytes", "Bytes of free slots in used spans", g.pool.stranded_bytes},
      {"pages_indexed", "Pages in the index", g.pages_indexed},
      {"index_bytes", "Memory of the index", g.index_bytes},
      {"sessions", "Sessions", g.sessions},
      {"groups", "Groups", g.groups},
      {"namespaces", "Namespaces", g.namespaces},
      {"leases", "Leases", g.leases},
      {"lease_pages", "Pages held by leases", g.lease_pages},
      {"operations", "Requests in flight", g.operations},
      {"fillings", "Pages with parts under way", g.fillings},
      {"fetches", "Pages being read from the store", g.fetches},
      {"write_behind_bytes", "Bytes that wait to be written", g.write_behind_bytes},
      {"write_behind_pages", "Pages that wait to be written", g.write_behind_pages},
      {"store_bytes", "Bytes of the store's files", g.store_bytes},
      {"store_capacity_bytes", "Bytes that the store's files may take", g.store_capacity_bytes},
      {"store_segments", "Segments of the store", g.segments},
  };
  std::vector<prometheus::MetricFamily> families;
  for (const auto& gauge : all)
    families.push_back(gauge_family(gauge.name, gauge.help, gauge.value));
  return families;
}

std::vector<prometheus::MetricFamily> store_families(const StoreCounters& s) {
  return {
      counter_family("store_write_errors", "Writes of the store that failed", s.write_errors),
      counter_family("store_file_read_errors", "Reads of segment files that failed", s.read_errors),
      counter_family("store_no_space", "Writes that found no space", s.no_space),
      counter_family("store_foreign_files", "Files in the node's folder that are no segments",
                     s.foreign_files),
      counter_family("store_bad_superblocks", "Segment files with a damaged head",
                     s.bad_superblocks),
      counter_family("store_torn_entries", "Directory entries that did not hold together",
                     s.torn_entries),
      counter_family("store_cut_pages", "Pages beyond the end of their file", s.cut_pages),
      counter_family("store_breaker_trips", "Times the store's breaker opened", s.breaker_trips),
      gauge_family("store_breaker_open", "1 while the store is stalled and left alone",
                   s.breaker_open ? 1u : 0u),
      gauge_family("store_direct", "1 when the store uses O_DIRECT", s.direct ? 1u : 0u),
      gauge_family("store_registered", "1 when the host pool is registered with io_uring",
                   s.registered ? 1u : 0u),
  };
}

}  // namespace

struct Metrics::State {
  const Counters* counters = nullptr;
  const StoreCounters* store = nullptr;
  const UsrbioCounters* usrbio = nullptr;
  mutable std::mutex mutex;  // the snapshot's
  MetricsSnapshot snapshot;
};

Metrics::Metrics() : state_(new State) {}
Metrics::~Metrics() = default;

void Metrics::set_counters(const Counters* counters, const StoreCounters* store,
                           const UsrbioCounters* usrbio) {
  state_->counters = counters;
  state_->store = store;
  state_->usrbio = usrbio;
}

void Metrics::leave_snapshot(const MetricsSnapshot& now) {
  const std::lock_guard guard(state_->mutex);
  state_->snapshot = now;
}

MetricsSnapshot Metrics::snapshot() const {
  const std::lock_guard guard(state_->mutex);
  return state_->snapshot;
}

std::string Metrics::text() const {
  std::vector<prometheus::MetricFamily> families;
  if (state_->counters != nullptr) families = CounterCollector(*state_->counters).Collect();
  const auto add = [&](std::vector<prometheus::MetricFamily> more) {
    std::move(more.begin(), more.end(), std::back_inserter(families));
  };
  if (state_->store != nullptr) add(store_families(*state_->store));
  if (state_->usrbio != nullptr) add(usrbio_families(*state_->usrbio));
  add(gauge_families(snapshot()));
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace kvsidecar
