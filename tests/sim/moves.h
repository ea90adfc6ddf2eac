// SPDX-License-Identifier: Apache-2.0
// Which moves of a seed's run are played. Each move draws its chances from a number of its own, so
// that the others stay what they are when some are left out.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/fakes.h"

namespace kvsidecar::sim {

using Moves = std::vector<uint32_t>;  // rising

Moves first_moves(uint32_t count);
std::string text_of(const Moves& moves);                    // "0-7,12,20-21"
std::optional<Moves> parse_moves(const std::string& text);  // nothing when it is no such text

constexpr uint32_t kScenarioChances = UINT32_MAX, kCalmChances = UINT32_MAX - 1;
testing::SeededRandom chances_of(uint64_t seed, uint32_t move);

}  // namespace kvsidecar::sim
