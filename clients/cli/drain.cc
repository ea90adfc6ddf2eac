// SPDX-License-Identifier: Apache-2.0
#include <poll.h>

#include <cstdio>

#include "clients/cli/account.h"
#include "clients/cli/commands.h"
#include "clients/cli/print.h"

namespace kvsidecar {
namespace {

constexpr int kStepMs = 100;

// The question that counts is an operation of its own.
bool has_drained(const Account& a) { return a.operations <= 1 && a.write_pages == 0; }

int show(const Target& target, const std::string& json, const Account& account) {
  if (target.json)
    std::printf("%s\n", json.c_str());
  else
    std::printf("draining: %s operations run, %s pages (%s) wait to be written\n",
                count_text(account.operations).c_str(), count_text(account.write_pages).c_str(),
                bytes_text(account.write_bytes).c_str());
  return 0;
}

}  // namespace

int run_drain(const Target& target, const DrainOptions& options) {
  auto asker = Asker::open(target);
  if (!asker) return fail(target, "drain", asker.status());
  uint32_t what = KVS_STAT_DRAIN;
  while (true) {
    auto text = asker->stat(what);
    if (!text) return fail(target, "drain", text.status());
    auto account = parse_account(*text);
    if (!account) return fail(target, "drain", account.status());
    if (!options.wait || has_drained(*account)) return show(target, *text, *account);
    what = KVS_STAT_STATUS;
    (void)poll(nullptr, 0, kStepMs);
  }
}

}  // namespace kvsidecar
