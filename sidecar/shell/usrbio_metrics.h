// SPDX-License-Identifier: Apache-2.0
// The USRBIO store's counters as Prometheus families, by class of ring where they have one. Names:
// kvsidecar_usrbio_…
#pragma once
#include <prometheus/metric_family.h>

#include <vector>

namespace kvsidecar {

struct UsrbioCounters;
std::vector<prometheus::MetricFamily> usrbio_families(const UsrbioCounters& counters);

}  // namespace kvsidecar
