// SPDX-License-Identifier: Apache-2.0
// The namespaces that pages are imported into: named by id, all else is read from the daemon.
#pragma once
#include <string>

#include "clients/cli/asker.h"
#include "clients/cli/import/record_layout.h"

namespace kvsidecar {

struct TargetNamespace {
  std::string hex;  // its id
  NamespaceFields fields;
  uint64_t generation = 0;
  bool has_own_pages = false;  // stored by engines in this generation
  RecordLayout layout;
};

// The namespace of that id in `list`, the JSON of KVS_STAT_NAMESPACES. kInvalid names what keeps it
// from being imported into, with the remedy. Pure.
Result<TargetNamespace> find_target(const std::string& list, const std::string& hex);

// Attaches to it under its own id. Blocks until the daemon has answered.
Result<kvs_namespace> attach_target(client::Client& client, const TargetNamespace& target);

Status status_of(const client::Outcome& outcome);

}  // namespace kvsidecar
