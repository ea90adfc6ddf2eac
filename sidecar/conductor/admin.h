// SPDX-License-Identifier: Apache-2.0
// What an operator asks: status, namespaces, sessions, drain, why. Answers are JSON, cut into
// cells; a snapshot is made at offset 0 and kept until the next one. Conductor's thread only.
#pragma once
#include <string>

#include "sidecar/conductor/world.h"

namespace kvsidecar {

void serve_stat(World& world, const OpRef& op, const StatRequest& request);
void serve_why(World& world, const OpRef& op, const WhyRequest& request);
std::string status_json(const World& world);
Gauges gauges_of(const World& world);

}  // namespace kvsidecar
