// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/planted_bugs.h"

namespace kvsidecar {
namespace {

Bug switched_on = Bug::kNone;

}  // namespace

bool planted(Bug bug) { return bug == switched_on; }

namespace sim {

void plant(Bug bug) { switched_on = bug; }

}  // namespace sim
}  // namespace kvsidecar
