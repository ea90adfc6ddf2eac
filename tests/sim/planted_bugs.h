// SPDX-License-Identifier: Apache-2.0
// The switches of sidecar/planted.h. One bug at a time; a forked process has its parent's.
#pragma once
#include "sidecar/planted.h"

namespace kvsidecar::sim {

void plant(Bug bug);  // kNone: all switches off

}  // namespace kvsidecar::sim
