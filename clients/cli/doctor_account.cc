// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/doctor_account.h"

#include "clients/cli/dropped_writes.h"
#include "clients/cli/print.h"

namespace kvsidecar {
namespace {

constexpr double kDroppedShareMax = 0.1;  // of the pages that became complete

}  // namespace

Check check_host_pool(const Account& account) {
  constexpr const char* kName = "host pool";
  if (account.pool_bytes == 0)
    return {kName, Verdict::kFail, "no chunk is in: every put is refused, every lookup misses it",
            "wait when the daemon has just started; else give host_pool.directory room (mount -o "
            "remount,size=50% /dev/shm, containers: --shm-size) or lower host_pool.bytes, and look "
            "for chunk_failed in the daemon's log: journalctl -u kvsidecar"};
  return {kName, Verdict::kOk,
          bytes_text(account.pool_bytes) + ", " + count_text(account.slots_full) + " pages in it",
          ""};
}

Check check_store_writes(const Account& account) {
  constexpr const char* kName = "store writes";
  const DroppedWrites dropped = dropped_writes(account);
  if (dropped.pages == 0) return {kName, Verdict::kOk, "none was dropped", ""};
  const std::string text = count_text(dropped.pages) + " dropped, " +
                           percent_text(dropped.share()) + " of the completed pages, " +
                           reason_text(dropped.reason);
  if (dropped.share() <= kDroppedShareMax) return {kName, Verdict::kOk, text, ""};
  return {kName, Verdict::kWarn, text, reason_remedy(dropped.reason)};
}

}  // namespace kvsidecar
