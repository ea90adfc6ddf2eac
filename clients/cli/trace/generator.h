// SPDX-License-Identifier: Apache-2.0
// A generated trace with the shape of Mooncake's public conversation trace: one shared system
// prompt page, conversations whose turns come back after realistic gaps and extend the last prompt,
// documents that are asked about again and again, the same lengths and the same arrival rate. The
// distributions are quantiles measured on that trace (generator.cc). Pure, deterministic for a seed
// on every platform; any thread.
#pragma once
#include <cstddef>
#include <cstdint>

#include "clients/cli/trace/trace.h"

namespace kvsidecar {

// The first `requests` requests by time; at least 1.
Trace generate_trace(uint64_t seed, size_t requests);

}  // namespace kvsidecar
