// SPDX-License-Identifier: Apache-2.0
// When a fault strikes and with what: "VALUE", "VALUE@3" (the third time only), "VALUE@3+" (from
// the third on), "VALUE@3-5", "VALUE@%4" (each fourth). Times are counted from when the rule was
// set. Pure.
#pragma once
#include <cstdint>
#include <string_view>

#include "ipc/result.h"

namespace kvsidecar::fake3fs {

enum class FaultKind : uint8_t {
  kErrno,  // a name ("ENOSPC") or a number
  kMicroseconds,
  kBytes,
  kNumber,
  kSwitch,  // on, off
  kStall    // on (until released) or milliseconds
};

struct FaultRule {
  int64_t value = 0;  // kStall: 0 = until released
  uint64_t first = 1, last = UINT64_MAX, every = 1;
  uint64_t seen = 0;

  bool strikes();  // counts one more time
};

Result<FaultRule> parse_fault_rule(FaultKind kind, std::string_view text);
int errno_of_name(std::string_view name);  // 0: unknown

}  // namespace kvsidecar::fake3fs
