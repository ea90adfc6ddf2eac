// SPDX-License-Identifier: Apache-2.0
// What must hold inside the daemon, whatever engines and faults do. Each returns the first sentence
// that is not true, or nothing.
#pragma once
#include <string>

#include "tests/sim/scenario.h"

namespace kvsidecar::sim {

std::string broken_sum(const Counters& count);  // after every move
// Every pin, slot, queue and byte has its owner, and is within its limit.
std::string broken_invariant(testing::Node& node, const Scenario& plan);
std::string broken_rest(testing::Node& node);  // no request is open and all time limits have passed
std::string broken_end(testing::Node& node);   // and no session either

}  // namespace kvsidecar::sim
