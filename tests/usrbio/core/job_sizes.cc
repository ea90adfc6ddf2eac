// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/core/job_sizes.h"

#include <algorithm>

namespace kvsidecar::fake3fs {

std::vector<uint32_t> job_sizes(const PickRule& rule, uint32_t queued, uint32_t free_places) {
  const int64_t depth = rule.io_depth;
  const auto most = static_cast<uint32_t>(depth < 0 ? -depth : depth);
  std::vector<uint32_t> sizes;
  while (sizes.size() < rule.jobs_max) {
    const uint32_t possible = std::min(queued, free_places);
    const uint32_t size = depth == 0 ? possible : std::min(possible, most);
    if (size == 0) break;
    const bool full = size == most;
    if (depth > 0 && !full) break;
    if (depth < 0 && rule.timeout_ms > 0 && !full) break;
    sizes.push_back(size);
    queued -= size;
    free_places -= size;
  }
  return sizes;
}

}  // namespace kvsidecar::fake3fs
