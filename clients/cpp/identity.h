// SPDX-License-Identifier: Apache-2.0
// From the C structs to ipc/identity.h, and the description's canonical form. Pure; any thread.
#pragma once
#include <vector>

#include "clients/cpp/kvsidecar_identity.h"
#include "ipc/identity.h"

namespace kvsidecar::clientlib {

// kInvalid when a required string is NULL or a list's pointer is; encode_identity checks the rest.
Result<NamespaceFields> to_fields(const kvs_namespace_fields& fields);
Result<std::vector<std::byte>> encode_description(const kvs_description& description);

}  // namespace kvsidecar::clientlib
