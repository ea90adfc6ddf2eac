// SPDX-License-Identifier: Apache-2.0
// Reads what the metadata server saves: {"RANK:POOL": {"num_pages": N, "free_pages": [INDEX, …],
// "key_to_index": [[KEY, INDEX], …]}}, oldest key first; a name without ":" is an old file's and
// means the pool kv. The text is read once, entry by entry, so memory doesn't grow with it. Blocks
// on the file. One thread.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "ipc/result.h"

namespace kvsidecar {

inline constexpr uint64_t kImpossibleIndex =
    UINT64_MAX;  // a number that can't be one, e.g. below zero
inline constexpr uint64_t kMetadataBytesMax = 1ull << 30;

// Takes the entries as they come.
class MetadataSink {
 public:
  virtual ~MetadataSink() = default;
  // A table begins; what follows belongs to it. An error ends the reading with it.
  virtual Status begin_table(uint32_t rank, const std::string& pool) = 0;
  virtual void num_pages(uint64_t pages) = 0;
  virtual void free_page(uint64_t index) = 0;
  virtual void record(std::string_view key, uint64_t index) = 0;
};

// An error names file, place and remedy.
Status read_metadata(const std::string& path, MetadataSink& sink);

}  // namespace kvsidecar
