// SPDX-License-Identifier: Apache-2.0
// A daemon serves before its host pool stands: chunks are reserved and touched in the background,
// and until the first is ready every put is refused.
#pragma once
#include <cstdint>
#include <string>

#include "ipc/result.h"

namespace kvsidecar {

// Blocks until the daemon behind `socket` (empty: the default) has that much host pool; kTimeout
// after two minutes. Opens and closes a client.
Status await_pool(const std::string& socket, uint64_t pool_bytes);

}  // namespace kvsidecar
