// SPDX-License-Identifier: Apache-2.0
// Pages that the store alone has, and with them what they say of themselves.
#pragma once
#include <string>
#include <vector>

#include "clients/cli/asker.h"

namespace kvsidecar {

// Has the daemon read the page into its host pool, where `why` finds what it says. list: the JSON
// of KVS_STAT_NAMESPACES; hex: the namespace's id. Blocks until it was read, at most ten seconds.
Status load_imported(const Target& target, const std::string& list, const std::string& hex,
                     const std::vector<uint8_t>& key);

}  // namespace kvsidecar
