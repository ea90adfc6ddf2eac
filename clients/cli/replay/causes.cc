// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/replay/causes.h"

#include <algorithm>

namespace kvsidecar {

bool Causes::add(RequestKind kind, Code status, uint64_t count) {
  // A status of a newer daemon has no place of its own.
  const size_t place = std::min(static_cast<size_t>(status), kStatuses - 1);
  return counts_[static_cast<size_t>(kind)][place].fetch_add(count) == 0;
}

std::vector<Cause> Causes::list() const {
  std::vector<Cause> causes;
  for (size_t kind = 0; kind < kKinds; ++kind)
    for (size_t status = 0; status < kStatuses; ++status)
      if (const uint64_t count = counts_[kind][status].load(); count != 0)
        causes.push_back({static_cast<RequestKind>(kind), static_cast<Code>(status), count});
  std::stable_sort(causes.begin(), causes.end(),
                   [](const Cause& a, const Cause& b) { return a.count > b.count; });
  return causes;
}

std::string kind_name(RequestKind kind) {
  return kind == RequestKind::kLookup ? "lookup" : kind == RequestKind::kGet ? "get" : "put";
}

std::string cause_name(const Cause& cause) {
  return kind_name(cause.kind) + " " + std::string(code_name(cause.status));
}

std::string cause_count(const Cause& cause) {
  return std::to_string(cause.count) + (cause.kind == RequestKind::kLookup ? " times" : " pages");
}

std::string cause_remedy(const Cause& cause) {
  switch (cause.status) {
    case Code::kDenied:
      return "list " + std::string(cause.kind == RequestKind::kPut ? "put" : "read") +
             " in the permissions of this user's [[allow]] entry in kvsidecar.toml";
    case Code::kDraining:
      return "the daemon drains and takes no new work until it is started again: "
             "systemctl restart kvsidecar";
    case Code::kOverQuota:
      return "raise the limits of this user's [[allow]] entry in kvsidecar.toml";
    case Code::kBusy:
      return "its queues or its pool were full; raise host_pool.bytes in kvsidecar.toml";
    default:
      return "";
  }
}

}  // namespace kvsidecar
