// SPDX-License-Identifier: Apache-2.0
// The job picker: into which jobs a scan cuts what is queued on a ring. Pure.
//   io_depth 0    everything queued is one job
//   io_depth > 0  jobs of exactly that many; a remainder waits
//   io_depth < 0  jobs of at most that many. With a timeout the real daemon restarts the batch's
//                 timer at each scan, so a job that isn't full is never taken: so here.
// A job never takes more than there are free completion places; one scan takes at most jobs_max.
#pragma once
#include <cstdint>
#include <vector>

namespace kvsidecar::fake3fs {

struct PickRule {
  int32_t io_depth = 0;
  uint32_t timeout_ms = 0;
  uint32_t jobs_max = 32;
};

std::vector<uint32_t> job_sizes(const PickRule& rule, uint32_t queued, uint32_t free_places);

}  // namespace kvsidecar::fake3fs
