// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <nlohmann/json.hpp>

#include "clients/cli/commands.h"
#include "clients/cli/namespaces_text.h"
#include "clients/cli/print.h"

namespace kvsidecar {
namespace {

using Json = nlohmann::json;

std::string number(const Json& row, const char* name) {
  return count_text(row.value(name, uint64_t{0}));
}

std::string sessions_text(const Json& list) {
  Columns table({"session", "name", "pid", "uid", "namespaces", "regions", "memory", "operations",
                 "in flight", "leased pages"});
  for (const Json& row : list)
    table.add({number(row, "session"), row.value("name", "?"),
               std::to_string(row.value("pid", uint64_t{0})),
               std::to_string(row.value("uid", uint64_t{0})), number(row, "namespaces"),
               number(row, "regions"), bytes_text(row.value("region_bytes", uint64_t{0})),
               number(row, "operations"), bytes_text(row.value("bytes_in_flight", uint64_t{0})),
               number(row, "lease_pages")});
  return table.text();
}

}  // namespace

int run_ls(const Target& target, const LsOptions& options) {
  auto asker = Asker::open(target);
  if (!asker) return fail(target, "ls", asker.status());
  auto text = asker->stat(options.sessions ? KVS_STAT_SESSIONS : KVS_STAT_NAMESPACES);
  if (!text) return fail(target, "ls", text.status());
  const Json json = Json::parse(*text, nullptr, false);
  const char* name = options.sessions ? "sessions" : "namespaces";
  if (!json.is_object() || !json.contains(name))
    return fail(target, "ls", {Code::kInternal, "the daemon's list isn't one"});
  if (target.json) {
    std::printf("%s\n", json.dump(2).c_str());
  } else if (options.sessions) {
    std::printf("%s", sessions_text(json[name]).c_str());
  } else {
    const auto table = namespaces_text(*text);
    if (!table) return fail(target, "ls", table.status());
    std::printf("%s", table->c_str());
  }
  return 0;
}

}  // namespace kvsidecar
