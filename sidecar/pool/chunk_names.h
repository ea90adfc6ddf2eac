// SPDX-License-Identifier: Apache-2.0
// Names of chunk files, and the files of a pool that lie in its directory. Any thread.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sidecar/pool/chunk_files.h"

namespace kvsidecar {

struct ChunkFile {
  std::string path;
  std::optional<uint32_t> number;  // nullopt: digits that no daemon of this version writes ("007")
  uint64_t allocated_bytes = 0;
  bool own = false;  // a regular file of this user
};

std::string chunk_path(const ChunkPlan& plan, uint32_t number);
uint32_t chunk_count(const ChunkPlan& plan);
bool is_pool_name(std::string_view name);
// In no order. Files that vanish meanwhile are left out.
Result<std::vector<ChunkFile>> list_chunks(const ChunkPlan& plan);

}  // namespace kvsidecar
