// SPDX-License-Identifier: Apache-2.0
// Pages that were to be written to the store and never were: they end with their place in the host
// pool. Pure; any thread.
#pragma once
#include <cstdint>
#include <string>

#include "clients/cli/account.h"

namespace kvsidecar {

enum class DropReason : uint8_t { kNone, kEvicted, kQueueFull, kQuota };

struct DroppedWrites {
  uint64_t pages = 0, completed = 0;      // completed: pages that became visible meanwhile
  DropReason reason = DropReason::kNone;  // of most of them
  double share() const;                   // of the completed pages, 0..1
};

// Between two accounts; a daemon that was started again counts from zero.
DroppedWrites dropped_writes(const Account& before, const Account& now);
DroppedWrites dropped_writes(const Account& now);  // since the daemon's start

// "most because their page was evicted first"; empty for kNone.
std::string reason_text(DropReason reason);
std::string reason_remedy(DropReason reason);

}  // namespace kvsidecar
