// SPDX-License-Identifier: Apache-2.0
// Delete: the page is a miss for every lookup that starts after the answer, here and after a
// restart. Readers that hold it finish. Conductor's thread only.
#pragma once
#include "sidecar/conductor/world.h"

namespace kvsidecar {

void delete_pages(World& world, const OpRef& op, const DeleteRequest& request);

}  // namespace kvsidecar
