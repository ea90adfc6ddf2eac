// SPDX-License-Identifier: Apache-2.0
// Who may attach: the [[allow]] entries against a peer's credentials. Pure; any thread.
#pragma once
#include <optional>
#include <vector>

#include "ipc/os.h"
#include "sidecar/shell/config.h"

namespace kvsidecar {

class AllowRules {
 public:
  // `own_uid`: the daemon's; `client_gid`: the group kvsidecar, if this machine has it.
  AllowRules(std::vector<AllowEntry> entries, uint32_t own_uid, std::optional<uint32_t> client_gid);
  // The permissions of the first entry that matches. Without entries: the default rule (own uid,
  // root, members of the group). kDenied with a sentence when nothing matches.
  Result<Permissions> find(const PeerIdentity& peer) const;

 private:
  const std::vector<AllowEntry> entries_;
  const uint32_t own_uid_;
  const std::optional<uint32_t> client_gid_;
};

// The group kvsidecar of this machine. Reads the user database; start-up only.
std::optional<uint32_t> client_group();

}  // namespace kvsidecar
