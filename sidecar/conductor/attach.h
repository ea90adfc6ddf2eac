// SPDX-License-Identifier: Apache-2.0
// Attach and clear. A namespace's record is on disk before an attach to it or a clear of it is
// answered. Conductor's thread only.
#pragma once
#include "sidecar/conductor/world.h"

namespace kvsidecar {

void start_attach(World& world, const OpRef& op, const AttachRequest& request);
void start_clear(World& world, const OpRef& op, const ClearRequest& request);
// Answers one of the two whose record isn't saved at its deadline. A clear may still happen.
void expire_record(World& world, const OpRef& op);

// The attachment behind a handle; kUnknownHandle, kStaleHandle, kStaleNamespace.
Result<Attachment*> find_attachment(World& world, Session& session, Handle handle);

}  // namespace kvsidecar
