// SPDX-License-Identifier: Apache-2.0
// The daemon's list of namespaces as a table that tells namespaces of one model apart. Pure; any
// thread.
#pragma once
#include <string>

#include "ipc/result.h"

namespace kvsidecar {

// The JSON text of KVS_STAT_NAMESPACES.
Result<std::string> namespaces_text(const std::string& json);

}  // namespace kvsidecar
