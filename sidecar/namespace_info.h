// SPDX-License-Identifier: Apache-2.0
// A namespace as the daemon knows it. Made by the conductor, kept while anything uses it, read by
// workers: everything above the line is constant once it is known.
#pragma once
#include <vector>

#include "ipc/identity.h"

namespace kvsidecar {

inline constexpr uint32_t kNobody = 0xffffffffu;

struct NamespaceInfo {
  uint32_t number = 0;  // dense, for the index entry
  Hash128 id;
  std::vector<std::byte> encoded;  // canonical form
  NamespaceFields fields;
  uint64_t page_bytes = 0;
  std::vector<uint64_t> part_offsets;  // byte offset of each part in the page
  bool lasting = true;                 // false: no other session or epoch can name it
  // Conductor only.
  uint64_t generation = 1;
  bool saved = false;           // the state directory has this generation
  uint64_t pages = 0;           // entries of the index, of all generations
  uint64_t own_generation = 0;  // highest one that has had a page which wasn't imported; 0: none
  uint32_t account = kNobody;
};

}  // namespace kvsidecar
