// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/dropped_writes.h"

namespace kvsidecar {
namespace {

constexpr struct {
  const char* counter;
  DropReason reason;
} kDrops[] = {{"writes_dropped_evicted", DropReason::kEvicted},
              {"writes_dropped_full", DropReason::kQueueFull},
              {"writes_dropped_quota", DropReason::kQuota}};

}  // namespace

double DroppedWrites::share() const {
  return completed == 0 ? 0 : static_cast<double>(pages) / static_cast<double>(completed);
}

DroppedWrites dropped_writes(const Account& before, const Account& now) {
  DroppedWrites dropped;
  dropped.completed = grown(before, now, "pages_completed");
  uint64_t most = 0;
  for (const auto& drop : kDrops) {
    const uint64_t pages = grown(before, now, drop.counter);
    dropped.pages += pages;
    if (pages <= most) continue;
    most = pages;
    dropped.reason = drop.reason;
  }
  return dropped;
}

DroppedWrites dropped_writes(const Account& now) { return dropped_writes(Account(), now); }

std::string reason_text(DropReason reason) {
  switch (reason) {
    case DropReason::kEvicted:
      return "most because their page was evicted first";
    case DropReason::kQueueFull:
      return "most because the write-behind queue was full";
    case DropReason::kQuota:
      return "most because of store_bytes_max";
    case DropReason::kNone:
      break;
  }
  return "";
}

std::string reason_remedy(DropReason reason) {
  switch (reason) {
    case DropReason::kEvicted:
      return "the store is slower than what is put: raise host_pool.bytes, so that pages wait "
             "longer, set store.write_bytes_per_s to 0 (no limit), or use a faster device";
    case DropReason::kQueueFull:
      return "the store is slower than what is put: raise store.write_behind_bytes, set "
             "store.write_bytes_per_s to 0 (no limit), or use a faster device";
    case DropReason::kQuota:
      return "raise store_bytes_max of the [[allow]] entry, or set it to 0 (no limit)";
    case DropReason::kNone:
      break;
  }
  return "";
}

}  // namespace kvsidecar
