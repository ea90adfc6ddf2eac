// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/bench/placement.h"

namespace kvsidecar {

CoreScope::CoreScope(Side side) {
  CPU_ZERO(&before_);
  if (sched_getaffinity(0, sizeof before_, &before_) != 0 || CPU_COUNT(&before_) == 0) return;
  int left = side % CPU_COUNT(&before_);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &before_) || left-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    (void)sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

CoreScope::~CoreScope() {
  if (CPU_COUNT(&before_) > 0) (void)sched_setaffinity(0, sizeof before_, &before_);
}

}  // namespace kvsidecar
