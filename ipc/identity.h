// SPDX-License-Identifier: Apache-2.0
// Identity: what decides the bytes of a page besides its key. Golden vectors in tests/unit/ipc.
//
// Canonical form: entries (u16 tag, u32 length, bytes), little-endian, sorted by tag (extra fields,
// which share a tag, by their bytes); no tag twice but kExtra. Strings are UTF-8 without NUL,
// integers little-endian of the width named below. Namespace id = XXH3-128 of the canonical form,
// seed 0, stored as low64 then high64. A field that is absent is not the field that is empty. Pure;
// any thread.
#pragma once
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ipc/requests.h"
#include "ipc/result.h"

namespace kvsidecar {

struct Hash128 {
  uint64_t low = 0, high = 0;
  bool operator==(const Hash128&) const = default;
  auto operator<=>(const Hash128&) const = default;
};
std::string to_hex(const Hash128&);  // 32 digits: low64's bytes then high64's, as stored
std::optional<Hash128> hash_from_hex(std::string_view);

enum class IdentityTag : uint16_t {
  kFormatVersion = 1,  // u32, required, = kIdentityFormat
  kModel = 2,          // string, required, not empty
  kRevision = 3,       // string, required, not empty: revision or fingerprint of the weights
  kAdapter = 4,        // string: content id of the adapter; absent = none
  kTenantSalt = 5,     // string; absent = none
  kDtype = 6,          // string, required, not empty
  kQuantization = 7,   // string, required ("none")
  kLayout = 8,         // string, required, not empty: how a part's bytes are arranged
  kTokensPerPage = 9,  // u32, required, >= 1
  kPool = 10,          // string, required ("kv", "mamba", …), 1..64 bytes
  kGeometry = 11,      // 3 x u16 (tp, pp, cp sizes), required, each >= 1
  kSlice = 12,         // 2 x u16 (slice, slices of the model), required, slice < slices
  kParts = 13,  // n x (Coordinate 8 bytes, u64 bytes), required, 1..kPartsMax, no coordinate twice,
                // sum <= kPageBytesMax
  kDraftModel = 14,  // string, required ("none")
  kKeyScheme = 15,   // string: how the engine makes its keys; absent = unnamed
  kDetach = 16,      // 16 bytes, derived from the group's uuid; absent = shared with everybody
  kExtra = 64,       // repeated: u16 name length, name, value; no name twice
};
inline constexpr uint32_t kIdentityFormat = 1;
inline constexpr size_t kIdentityBytesMax = 16 * 1024;

struct PartSpec {
  Coordinate coordinate;
  uint64_t bytes = 0;
};

struct NamespaceFields {
  std::string model, revision, dtype, quantization, layout, pool, draft_model;
  std::optional<std::string> adapter, tenant_salt, key_scheme;
  uint32_t tokens_per_page = 0;
  uint16_t tp_size = 0, pp_size = 0, cp_size = 0, slice = 0, slices = 0;
  std::vector<PartSpec> parts;  // in declared order: part digests are joined in this order
  std::optional<std::array<std::byte, 16>> detach;
  std::vector<std::pair<std::string, std::string>> extra;

  uint64_t page_bytes() const;  // sum of the parts
  std::optional<uint32_t> part_index(const Coordinate& c) const;
};

// Fails with kInvalid naming the field when a required one is missing or a value is out of range.
Result<std::vector<std::byte>> encode_identity(const NamespaceFields& fields);
// Strict: the bytes must be exactly what encode_identity makes of the result.
Result<NamespaceFields> decode_identity(Bytes encoded);

Hash128 namespace_id(Bytes encoded);
// XXH3-128(id 16 bytes, u64 generation, u8 key length, key), seed 0.
Hash128 page_hash(const Hash128& namespace_id, uint64_t generation, Bytes key);
// XXH3-64(page hash 16 bytes, coordinate 8 bytes), seed 0: the seed of the part's digest.
uint64_t part_seed(const Hash128& page, const Coordinate& coordinate);

}  // namespace kvsidecar
