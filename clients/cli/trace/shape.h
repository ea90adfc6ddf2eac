// SPDX-License-Identifier: Apache-2.0
// The shape of a trace, as far as a cache can feel it, and the shape of the reference trace to set
// it against. Pure; any thread.
#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "clients/cli/trace/trace.h"

namespace kvsidecar {

struct Shape {
  uint64_t requests = 0;
  uint64_t accesses = 0;      // pages of all prompts
  double repeated_share = 0;  // of the accesses: the page was asked for before
  double pages_mean = 0;      // of a prompt
  uint64_t pages_p10 = 0, pages_p50 = 0, pages_p90 = 0, pages_p99 = 0;
  double share_first_2 = 0;  // of the requests: an earlier one has the same first 2, … pages
  double share_first_4 = 0, share_first_8 = 0, share_first_16 = 0;
  uint64_t distance_p25 = 0;  // of the repeats: distinct pages since the page was last asked for
  uint64_t distance_p50 = 0, distance_p75 = 0, distance_p90 = 0;
};

Shape measure_shape(const Trace& trace);

// Mooncake's conversation trace (12,031 requests of one hour, FAST'25 release), cut after as many
// requests as is nearest to `requests`: repeats and distances grow with the length of a trace.
const Shape& reference_shape(uint64_t requests);

// A table of two columns, lines ended by '\n': the trace beside the reference.
std::string compare_shapes(const Shape& trace, const Shape& reference);

}  // namespace kvsidecar
