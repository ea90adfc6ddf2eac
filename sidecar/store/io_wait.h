// SPDX-License-Identifier: Apache-2.0
// How long to sleep where completions are announced by nobody. Pure; any thread.
#pragma once
#include <algorithm>
#include <cstdint>

namespace kvsidecar {

// An eighth of what the oldest has taken so far: it then ends at most an eighth later than it could
// have, and looking costs a handful of wake-ups for each doubling of its age, however long it
// takes. Below 20 us a sleep costs more than it saves; above 1 ms it would be felt.
constexpr uint64_t nap_ns(uint64_t age_ns) {
  return std::clamp<uint64_t>(age_ns / 8, 20'000, 1'000'000);
}

}  // namespace kvsidecar
