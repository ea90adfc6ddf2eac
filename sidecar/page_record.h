// SPDX-License-Identifier: Apache-2.0
// What a page must carry to prove itself: who it is, how long, its digests. The same encoding lies
// in the host pool's slot table and, as the slot's trailer, in segment files. Pure; any thread.
//
// Encoding (little-endian): u32 total bytes, u32 key bytes, u32 parts, u32 description bytes,
// namespace id 16, u64 generation, u64 page bytes, page hash 16, u64 page digest, part digests 8
// each, key, description, zero pad to 8, u64 check = XXH3-64 of everything before it.
#pragma once
#include <span>
#include <vector>

#include "ipc/identity.h"

namespace kvsidecar {

// More clears than a namespace can have seen: a higher generation in a file is damage, and counting
// on from it could end where no higher one is left.
inline constexpr uint64_t kGenerationMax = 1ull << 48;

struct PageRecord {
  Hash128 hash;
  Hash128 namespace_id;
  uint64_t generation = 0;
  uint64_t page_bytes = 0;
  uint64_t digest = 0;  // XXH3-64 of the part digests in declared order
  std::vector<uint64_t> part_digests;
  std::vector<std::byte> key;
  std::vector<std::byte> description;  // empty = none
};

size_t record_bytes(size_t parts, size_t key_bytes, size_t description_bytes);
size_t record_bytes(const PageRecord&);
// Writes record_bytes(record) bytes; `out` must be that long at least.
void encode_record(const PageRecord& record, std::span<std::byte> out);
// kCorrupt when the bytes aren't a whole, self-consistent record. Never reads past `bytes`.
Result<PageRecord> decode_record(Bytes bytes);
// The key of an encoded record, in place and without its check; empty when the lengths don't fit.
Bytes record_key(Bytes bytes);

}  // namespace kvsidecar
