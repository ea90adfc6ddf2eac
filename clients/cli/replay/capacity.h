// SPDX-License-Identifier: Apache-2.0
// How many pages of one size a daemon can hold, from its own account (kvs_stat). Blocks for at most
// a few seconds; opens and closes a client.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "ipc/result.h"

namespace kvsidecar {

struct Capacity {
  uint64_t pool_pages = 0;
  uint64_t store_pages = 0;
};

Result<Capacity> read_capacity(const std::string& socket, uint64_t page_bytes);
// The JSON text of KVS_STAT_STATUS.
Result<Capacity> parse_capacity(std::string_view status_json, uint64_t page_bytes);

}  // namespace kvsidecar
