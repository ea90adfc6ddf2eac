// SPDX-License-Identifier: Apache-2.0
// What the bytes of pool_plan_fuzz mean: first what is planned, then a SpanPlan, or files, each a
// PoolFile and its name.
#pragma once
#include <cstdint>

namespace kvsidecar::fuzz {

enum class PlanOf : uint8_t { kSpans, kFiles };
struct [[gnu::packed]] SpanPlan {
  uint32_t span_units;
  uint16_t spans_max, parts, description_bytes;
  uint64_t page_bytes, slot_bytes;
  uint32_t entry_bytes;
};
enum class FileKind : uint8_t {
  kChunk,
  kOddSize,
  kOddMode,
  kSymlink,
  kHardLink,
  kFolder,
  kFifo,
  kKinds
};
// Beside the kind: the name is chunk `size`'s, or begins as a chunk's.
inline constexpr uint8_t kChunkName = 64, kChunkPrefix = 128;
struct [[gnu::packed]] PoolFile {
  uint8_t kind;
  uint16_t size;  // kOddSize: bytes; kOddMode: mode bits
  uint8_t name_bytes;
};

}  // namespace kvsidecar::fuzz
