// SPDX-License-Identifier: Apache-2.0
// How a list becomes records: arithmetic only. A record holds at most kItemsMax items and
// kRequestBytesMax encoded bytes. Pure; any thread.
#pragma once
#include <cstdint>
#include <span>

#include "ipc/layout.h"
#include "ipc/requests.h"

namespace kvsidecar::clientlib {

// More than a FlatBuffer's table, vector lengths and paddings take, pools of a lookup included.
inline constexpr uint32_t kRecordOverheadBytes = 1024;

// What one item adds to a record beside its key.
struct ItemCosts {
  uint32_t key_bytes = 0;
  bool run_items = false;                      // else blocks
  std::span<const RunItem> runs;               // with run_items, one an item; empty: one run each
  std::span<const uint32_t> description_ends;  // empty: no descriptions

  uint64_t of(uint32_t item) const;
};

// How many of the items [first, count) go into the next record: at least 1 when items are left, for
// every single item fits (64 bytes key, 64 runs, kDescriptionBytesMax).
uint32_t items_that_fit(const ItemCosts& costs, uint32_t first, uint32_t count);

// The same for keys alone (lookup, delete).
uint32_t keys_that_fit(uint32_t key_bytes, uint32_t first, uint32_t count);

}  // namespace kvsidecar::clientlib
