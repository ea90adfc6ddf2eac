// SPDX-License-Identifier: Apache-2.0
#include "sidecar/shell/allow_rules.h"

#include <grp.h>

#include <algorithm>

namespace kvsidecar {
namespace {

bool holds(const std::vector<uint32_t>& list, uint32_t number) {
  return std::find(list.begin(), list.end(), number) != list.end();
}

bool in_group(const PeerIdentity& peer, uint32_t gid) {
  return peer.gid == gid || holds(peer.groups, gid);
}

}  // namespace

AllowRules::AllowRules(std::vector<AllowEntry> entries, uint32_t own_uid,
                       std::optional<uint32_t> client_gid)
    : entries_(std::move(entries)), own_uid_(own_uid), client_gid_(client_gid) {}

Result<Permissions> AllowRules::find(const PeerIdentity& peer) const {
  for (const AllowEntry& entry : entries_) {
    const bool by_group = std::any_of(entry.gids.begin(), entry.gids.end(),
                                      [&](uint32_t gid) { return in_group(peer, gid); });
    if (by_group || holds(entry.uids, peer.uid)) return entry.permissions;
  }
  const bool owner = peer.uid == own_uid_ || peer.uid == 0;
  if (entries_.empty() && (owner || (client_gid_ && in_group(peer, *client_gid_)))) {
    Permissions all;
    all.read = all.put = all.clear = true;
    all.admin = owner;
    all.tenant_salts = {"*"};
    return all;
  }
  const std::string who = "uid " + std::to_string(peer.uid) + ", gid " + std::to_string(peer.gid);
  if (entries_.empty())
    return Status(Code::kDenied, who +
                                     " may not attach; add the user to the group kvsidecar, or "
                                     "list it in an [[allow]] entry of the configuration");
  return Status(Code::kDenied, who +
                                   " may not attach: no [[allow]] entry of the configuration "
                                   "lists it; add one");
}

std::optional<uint32_t> client_group() {
  const group* members = getgrnam("kvsidecar");
  if (members == nullptr) return std::nullopt;
  return members->gr_gid;
}

}  // namespace kvsidecar
