// SPDX-License-Identifier: Apache-2.0
// Attach, clear, and the namespaces behind them. A namespace's record is on disk before an attach
// to it or a clear of it is answered. Conductor's thread only.
#pragma once
#include "sidecar/conductor/world.h"

namespace kvsidecar {

void start_attach(World& world, const OpRef& op, const AttachRequest& request);
void start_clear(World& world, const OpRef& op, const ClearRequest& request);

// The attachment behind a handle; kUnknownHandle, kStaleHandle, kStaleNamespace.
Result<Attachment*> find_attachment(World& world, Session& session, Handle handle);

// The namespace of a canonical form, made if need be (restored, scanned, attached). Its generation
// becomes the highest seen. kInvalid when the form is not canonical, kOverQuota beyond the limit.
Result<NamespaceInfo*> know_namespace(World& world, Bytes encoded, uint64_t generation);

}  // namespace kvsidecar
