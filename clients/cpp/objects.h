// SPDX-License-Identifier: Apache-2.0
// What a client has made and what must be made again after a reconnect: regions, layouts,
// namespaces, fences. Ids are the client's own; handles are the daemon's, 0 while there is none.
// Under the client's mutex.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "ipc/identity.h"
#include "ipc/os.h"

namespace kvsidecar::clientlib {

struct RegionObject {
  Handle handle = 0;
  Status refused;  // why a later daemon did not take it
  bool staged = false;
  UniqueFd fd;
  uint64_t offset = 0;            // of the region in the file
  uint64_t bytes = 0;             // the caller's
  uint64_t registered_bytes = 0;  // and the echo's
  uint64_t echo_offset = 0;       // in the region
  std::byte* base = nullptr;      // the caller's mapping, or the library's
  std::byte* echo = nullptr;
  MappedMemory mapping, echo_mapping;  // of the library
};

struct LayoutObject {
  Handle handle = 0;
  Status refused;
  bool staged = false;  // some region of it can't be shared: known to the library only
  uint32_t blocks = 0;
  uint64_t part_bytes = 0;
  std::vector<LayoutRun> runs;  // region = the client's id
};

struct NamespaceObject {
  Handle handle = 0;
  Status refused;
  std::vector<std::byte> identity, group;
  Hash128 id;
  uint16_t group_size = 0, rank = 0;
  Coordinate coordinate;
  uint32_t description_bytes_max = 0;
  bool detach = false;
  uint64_t generation = 0;
  bool attached_once = false;
  bool stale = false;  // a reconnect found another generation
};

struct Objects {
  std::map<uint64_t, RegionObject> regions;
  std::map<uint64_t, LayoutObject> layouts;
  std::map<uint64_t, NamespaceObject> namespaces;
  std::vector<uint64_t> fence_values;  // by word
  std::vector<bool> fence_used;
  uint64_t last_id = 0;

  void forget_handles() {
    for (auto& [id, region] : regions) region.handle = 0, region.refused = {};
    for (auto& [id, layout] : layouts) layout.handle = 0, layout.refused = {};
    for (auto& [id, space] : namespaces) space.handle = 0, space.refused = {};
  }
};

// Fence ids are word + 1, so that 0 is none.
inline uint32_t fence_word(uint64_t fence) { return static_cast<uint32_t>(fence - 1); }

}  // namespace kvsidecar::clientlib
