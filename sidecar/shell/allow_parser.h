// SPDX-License-Identifier: Apache-2.0
// One [[allow]] table -> AllowEntry: names become numbers, permissions become flags. Looks into the
// user database; start-up only.
#pragma once
#include <string>
#include <vector>

#include "sidecar/shell/config_keys.h"

namespace kvsidecar {

struct AllowValue {
  std::string name;
  bool is_list = false;
  std::vector<KeyValue> values;
};
Result<AllowEntry> parse_allow(const std::vector<AllowValue>& values);

}  // namespace kvsidecar
