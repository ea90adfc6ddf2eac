// SPDX-License-Identifier: Apache-2.0
// What the bytes of span_table_fuzz mean: u8 mode, then the chunk's bytes as they are, or
//   kChunkEdits: a chunk that a pool wrote; kChunkRuns: u8 runs, each a WrittenRun, over it or over
//   zeros; then edits (u24 offset, u8 value).
#pragma once
#include <cstdint>

namespace kvsidecar::fuzz {

enum ChunkMode : uint8_t {
  kChunkEdits = 1,
  kChunkRightChecks = 2,  // label and headers' checks are made right in the end
  kChunkRuns = 4
};
struct WrittenRun {
  uint8_t span, spans, slot_units, entry_log, epoch;
  uint8_t full, filling;  // bit i: of the i-th slot; both: torn
};
static_assert(sizeof(WrittenRun) == 7);

}  // namespace kvsidecar::fuzz
