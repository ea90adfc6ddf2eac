// SPDX-License-Identifier: Apache-2.0
// Telling a forked child from its parent: two producers on one ring would corrupt it, and the
// keeper thread doesn't exist in a child. Any thread.
#pragma once
#include <cstdint>

namespace kvsidecar::clientlib {

// How many forks lie between this process and the one that loaded the library. The first call
// registers the handler that counts; calling it costs one atomic load afterwards.
uint64_t forks_so_far();

}  // namespace kvsidecar::clientlib
