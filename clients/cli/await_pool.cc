// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/await_pool.h"

#include <poll.h>

#include "clients/cli/account.h"
#include "clients/cli/asker.h"
#include "ipc/os.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kPatienceNs = 120'000'000'000;
constexpr int kStepMs = 20;

}  // namespace

Status await_pool(const std::string& socket, uint64_t pool_bytes) {
  Target target;
  target.socket = socket;
  auto asker = Asker::open(target);
  if (!asker) return asker.status();
  const uint64_t until_ns = monotonic_ns() + kPatienceNs;
  while (monotonic_ns() < until_ns) {
    const auto text = asker->stat(KVS_STAT_STATUS);
    if (!text) return text.status();
    const auto account = parse_account(*text);
    if (!account) return account.status();
    if (account->pool_bytes >= pool_bytes) return {};
    (void)poll(nullptr, 0, kStepMs);
  }
  return {Code::kTimeout, "the host pool wasn't ready in time"};
}

}  // namespace kvsidecar
