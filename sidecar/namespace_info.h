// SPDX-License-Identifier: Apache-2.0
// A namespace as the daemon knows it, and the record that names a page. Made by the conductor, kept
// until the daemon ends, read by workers: everything but `generation` is constant after
// construction.
#pragma once
#include <vector>

#include "ipc/identity.h"

namespace kvsidecar {

struct NamespaceInfo {
  uint32_t number = 0;  // dense, for the index entry
  Hash128 id;
  std::vector<std::byte> encoded;  // canonical form
  NamespaceFields fields;
  uint64_t page_bytes = 0;
  std::vector<uint64_t> part_offsets;  // byte offset of each part in the page
  uint64_t generation = 1;             // conductor only
};

}  // namespace kvsidecar
