// SPDX-License-Identifier: Apache-2.0
#include "sidecar/shell/usrbio_metrics.h"

#include <string>

#include "sidecar/store/usrbio/counters.h"

namespace kvsidecar {
namespace {

using Field = std::atomic<uint64_t> UsrbioClassCounters::*;
using Type = prometheus::MetricType;

constexpr struct {
  const char* name;
  const char* help;
  Field field;
  Type type;
} kByClass[] = {
    {"queue", "Transfers that wait to be started", &UsrbioClassCounters::queue, Type::Gauge},
    {"depth", "Requests in the ring", &UsrbioClassCounters::depth, Type::Gauge},
    {"quarantined", "Transfers past their deadline whose memory is still theirs",
     &UsrbioClassCounters::quarantined, Type::Gauge},
    {"transfers_total", "Transfers that ended", &UsrbioClassCounters::transfers, Type::Counter},
    {"bytes_total", "Bytes moved", &UsrbioClassCounters::bytes, Type::Counter},
    {"errors_total", "Transfers that ended with an error", &UsrbioClassCounters::errors,
     Type::Counter},
    {"short_total", "Requests that moved less than asked", &UsrbioClassCounters::short_moves,
     Type::Counter},
    {"staged_bytes_total", "Bytes copied because 3FS can't use the memory they lie in",
     &UsrbioClassCounters::staged_bytes, Type::Counter},
    {"full_total", "Times the ring took no more", &UsrbioClassCounters::full, Type::Counter},
    {"late_total", "Transfers that ended after their deadline", &UsrbioClassCounters::late,
     Type::Counter},
};

constexpr struct {
  const char* name;
  const char* help;
  std::atomic<uint64_t> UsrbioCounters::*field;
  Type type;
} kWhole[] = {
    {"mounts_lost_total", "Times the 3FS mount was lost", &UsrbioCounters::mounts_lost,
     Type::Counter},
    {"rings_replaced_total", "Rings given up for an I/O that never ended",
     &UsrbioCounters::rings_replaced, Type::Counter},
    {"unknown_completions_total", "Completions of nothing that was in flight",
     &UsrbioCounters::unknown_completions, Type::Counter},
    {"refused_chunks_total", "Chunks of the host pool that 3FS can't use",
     &UsrbioCounters::refused_memories, Type::Counter},
    {"registered_bytes", "Bytes of the host pool that 3FS reads into",
     &UsrbioCounters::registered_bytes, Type::Gauge},
};

prometheus::MetricFamily family_of(const char* name, const char* help, Type type) {
  prometheus::MetricFamily family;
  family.name = std::string("kvsidecar_usrbio_") + name;
  family.help = help;
  family.type = type;
  return family;
}

void add(prometheus::MetricFamily& family, double value, const char* kind) {
  prometheus::ClientMetric& metric = family.metric.emplace_back();
  if (kind != nullptr) metric.label = {{"class", kind}};
  (family.type == Type::Gauge ? metric.gauge.value : metric.counter.value) = value;
}

void add_latency(prometheus::MetricFamily& family, const UsrbioClassCounters& counters,
                 const char* kind) {
  prometheus::ClientMetric& metric = family.metric.emplace_back();
  metric.label = {{"class", kind}};
  prometheus::ClientMetric::Histogram& histogram = metric.histogram;
  for (size_t i = 0; i < counters.latency_buckets.size(); ++i) {
    histogram.sample_count += counters.latency_buckets[i].load(std::memory_order_relaxed);
    if (i == kLatencyBucketsNs.size()) break;  // Prometheus makes the last one itself
    histogram.bucket.push_back(
        {histogram.sample_count, static_cast<double>(kLatencyBucketsNs[i]) / 1e9});
  }
  histogram.sample_sum =
      static_cast<double>(counters.latency_ns.load(std::memory_order_relaxed)) / 1e9;
}

}  // namespace

std::vector<prometheus::MetricFamily> usrbio_families(const UsrbioCounters& counters) {
  std::vector<prometheus::MetricFamily> families;
  for (const auto& row : kByClass) {
    families.push_back(family_of(row.name, row.help, row.type));
    for (size_t i = 0; i < kTransferClasses; ++i)
      add(families.back(),
          static_cast<double>((counters.classes[i].*row.field).load(std::memory_order_relaxed)),
          kTransferClassNames[i]);
  }
  families.push_back(family_of("seconds", "How long transfers took", Type::Histogram));
  for (size_t i = 0; i < kTransferClasses; ++i)
    add_latency(families.back(), counters.classes[i], kTransferClassNames[i]);
  for (const auto& row : kWhole) {
    families.push_back(family_of(row.name, row.help, row.type));
    add(families.back(), static_cast<double>((counters.*row.field).load(std::memory_order_relaxed)),
        nullptr);
  }
  families.push_back(family_of("up", "1 while the 3FS mount is in use", Type::Gauge));
  add(families.back(), counters.up.load(std::memory_order_relaxed) ? 1 : 0, nullptr);
  return families;
}

}  // namespace kvsidecar
