// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "sidecar/conductor/lookups.h"

namespace kvsidecar {

uint32_t restorable_prefixes(const std::vector<PoolPresence>& pools, uint32_t keys,
                             std::vector<uint8_t>& bits) {
  bits.assign((keys + 7) / 8, 0);
  // run[p]: how many pages in a row, ending here, are present in pool p.
  std::vector<uint32_t> run(pools.size(), 0);
  uint32_t longest = 0;
  for (uint32_t i = 0; i < keys; ++i) {
    bool all = true;
    for (size_t p = 0; p < pools.size(); ++p) {
      run[p] = pools[p].present[i] != 0 ? run[p] + 1 : 0;
      const uint32_t length = i + 1;
      const uint32_t needed =
          pools[p].policy == HitPolicy::kAllPages ? length : std::min(pools[p].pages, length);
      all &= run[p] >= needed;
    }
    if (!all) continue;
    bits[i / 8] = static_cast<uint8_t>(bits[i / 8] | (1u << (i % 8)));
    longest = i + 1;
  }
  return longest;
}

}  // namespace kvsidecar
