// SPDX-License-Identifier: Apache-2.0
// The idle scrubber: pages adopted from a predecessor's host pool are checked once, before anybody
// asks for them, while the daemon has nothing else to do. A few are with the hash workers at once;
// any request makes it stand back until the daemon has been quiet for a while again. Conductor's
// thread only.
#pragma once
#include <array>
#include <cstdint>

#include "sidecar/index/index.h"
#include "sidecar/pool/host_pool.h"

namespace kvsidecar {

struct World;

inline constexpr uint64_t kScrubQuietNs = 100'000'000;  // without a request, before it begins
inline constexpr size_t kScrubsInFlight = 2;

struct ScrubState {
  SlotId next = 0;        // slots before it were looked at
  uint64_t requests = 0;  // seen at the last turn
  uint64_t busy_ns = 0;   // when the daemon last had something to do
  std::array<EntryId, kScrubsInFlight> running{kNoEntry, kNoEntry};
};

// One turn of it; true when it did something.
bool scrub(World& world);

}  // namespace kvsidecar
