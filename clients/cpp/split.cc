// SPDX-License-Identifier: Apache-2.0
#include "clients/cpp/split.h"

#include <algorithm>

namespace kvsidecar::clientlib {

uint64_t ItemCosts::of(uint32_t item) const {
  uint64_t bytes = key_bytes;
  if (run_items) {
    const uint64_t run_count = runs.empty() ? 1 : runs[item].run_count;
    bytes += sizeof(RunItem) + run_count * sizeof(Run);
  } else {
    bytes += sizeof(Block);
  }
  if (!description_ends.empty()) {
    const uint32_t begin = item == 0 ? 0 : description_ends[item - 1];
    bytes += sizeof(uint32_t) + (description_ends[item] - begin);
  }
  return bytes;
}

uint32_t items_that_fit(const ItemCosts& costs, uint32_t first, uint32_t count) {
  uint64_t bytes = kRecordOverheadBytes;
  uint32_t item = first;
  while (item < count && item - first < kItemsMax) {
    bytes += costs.of(item);
    if (bytes > kRequestBytesMax && item > first) break;
    ++item;
  }
  return item - first;
}

uint32_t keys_that_fit(uint32_t key_bytes, uint32_t first, uint32_t count) {
  const uint32_t room = (kRequestBytesMax - kRecordOverheadBytes) / std::max(key_bytes, 1u);
  return std::min({count - first, room, kItemsMax});
}

}  // namespace kvsidecar::clientlib
