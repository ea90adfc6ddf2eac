// SPDX-License-Identifier: Apache-2.0
// The requests as plain structs: what codec.h encodes to and decodes from FlatBuffers. After
// decode() every span points into the caller's private copy of the record and lives as long as that
// copy. Struct members mirror the FlatBuffers structs of kvsidecar.fbs byte for byte (asserted in
// codec.cc).
//
// Answers (completion payload, by type): put, get, delete: one Code byte per item. lookup: first
// ceil(items/8) bytes, bit i of this cell's slice set = prefix of offset+i+1 pages is restorable;
// then one Place byte per key. stat, why: JSON text. Errors of any type: one sentence.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace kvsidecar {

using Bytes = std::span<const std::byte>;
using Handle = uint64_t;
inline constexpr uint32_t kNoIndex = 0xffffffffu;

enum class Place : uint8_t { kMiss = 0, kHost = 1, kStore = 2, kRemote = 3 };
enum class HitPolicy : uint32_t { kAllPages = 0, kTrailingPages = 1 };

struct Fence {
  uint32_t index = kNoIndex;
  uint32_t reserved = 0;
  uint64_t value = 0;
};
struct Coordinate {
  uint16_t tp = 0, pp = 0, cp = 0, reserved = 0;
  auto operator<=>(const Coordinate&) const = default;
};
struct Block {
  Handle layout;
  uint32_t block;
  uint32_t claim;
};
struct RunItem {
  uint32_t first_run, run_count, claim, reserved;
};
struct Run {
  Handle region;
  uint64_t offset, length;
};
struct PoolPolicy {
  Handle namespace_handle;
  HitPolicy policy;
  uint32_t pages;
};
struct LayoutRun {
  Handle region;
  uint64_t base, block_stride, run_length;
};

// Keys of one length, end to end. count() is exact: decode refuses a remainder.
struct Keys {
  Bytes bytes;
  uint32_t key_bytes = 0;
  uint32_t count() const {
    return key_bytes == 0 ? 0 : static_cast<uint32_t>(bytes.size() / key_bytes);
  }
  Bytes operator[](uint32_t i) const { return bytes.subspan(size_t{i} * key_bytes, key_bytes); }
};

inline constexpr uint16_t kCoordinatorRank = 0xffff;
struct AttachRequest {
  Bytes identity, group;
  uint16_t group_size = 0, rank = 0;
  Coordinate coordinate;
  uint32_t description_bytes_max = 0;
  bool detach = false;
};
struct RegisterRegionRequest {
  uint64_t token;
  uint8_t kind;
  uint64_t bytes, offset, echo_offset, nonce;
};
struct RegisterLayoutRequest {
  uint32_t blocks;
  std::span<const LayoutRun> runs;
};
struct UnregisterRequest {
  Handle handle;
};
struct LookupRequest {
  Keys keys;
  uint32_t offset = 0, total = 0;
  std::span<const PoolPolicy> pools;
  uint64_t ticket = 0;
  uint32_t lease_ms = 0;
  bool prefetch = false;
};
// What put and get share: items are blocks, or run lists; exactly one of the two spans is filled.
struct Items {
  std::span<const Block> blocks;
  std::span<const RunItem> run_items;
  std::span<const Run> runs;
  uint32_t count() const { return static_cast<uint32_t>(blocks.size() + run_items.size()); }
};
struct PutRequest {
  Handle namespace_handle = 0;
  Keys keys;
  Items items;
  bool has_coordinate = false;
  Coordinate coordinate;
  Fence fence;
  bool durable = false;
  uint32_t position = 0, prompt_pages = 0;
  Bytes descriptions;
  std::span<const uint32_t> description_ends;
};
struct GetRequest {
  Handle namespace_handle = 0;
  Keys keys;
  Items items;
  bool has_coordinate = false;
  Coordinate coordinate;
  Fence fence;
  Handle lease = 0;
  uint32_t progress = kNoIndex;
};
struct ReleaseRequest {
  Handle lease;
};
struct CancelRequest {
  uint64_t request;
};
struct DeleteRequest {
  Handle namespace_handle;
  Keys keys;
};
struct ClearRequest {
  Handle namespace_handle;
  Bytes namespace_id;
};
enum class StatWhat : uint8_t { kStatus = 0, kNamespaces = 1, kSessions = 2, kDrain = 3 };
struct StatRequest {
  StatWhat what;
  uint32_t offset;
};
struct WhyRequest {
  Bytes namespace_id;
  Bytes key;
  uint32_t offset;
};

}  // namespace kvsidecar
