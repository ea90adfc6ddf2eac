// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <nlohmann/json.hpp>

#include "clients/cli/account.h"
#include "clients/cli/commands.h"
#include "clients/cli/print.h"

namespace kvsidecar {

int run_status(const Target& target) {
  auto asker = Asker::open(target);
  if (!asker) return fail(target, "status", asker.status());
  auto text = asker->stat(KVS_STAT_STATUS);
  if (!text) return fail(target, "status", text.status());
  auto account = parse_account(*text);
  if (!account) return fail(target, "status", account.status());
  if (target.json) {
    auto json = nlohmann::json::parse(*text);
    json["pid"] = asker->daemon_pid();
    std::printf("%s\n", json.dump(2).c_str());
  } else {
    std::printf("%s", status_text(*account, asker->daemon_pid()).c_str());
  }
  return 0;
}

}  // namespace kvsidecar
