// SPDX-License-Identifier: Apache-2.0
// What a predecessor left: FULL slots of the host pool, pages of the store's segments. Both are
// hints that prove themselves at their first use. Conductor's thread only.
#pragma once
#include "sidecar/conductor/world.h"

namespace kvsidecar {

void adopt_chunk(World& world, std::span<std::byte> memory, bool adopt);
void start_scan(World& world);
void scan_done(World& world, StoreDone&& done);

}  // namespace kvsidecar
