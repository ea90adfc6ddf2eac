// SPDX-License-Identifier: Apache-2.0
// What the conductor asks of a copy worker, and what comes back. The fence was reached before a
// command is made. Items belong to the worker from push to the CopyDone of their command; the
// conductor owns their memory throughout. Regions, layouts and slots stay alive until then.
#pragma once
#include <atomic>
#include <vector>

#include "ipc/claim.h"
#include "sidecar/device/device.h"

namespace kvsidecar {

// How a block number becomes memory: run r of block b is [base + b * stride, + length) of its
// region. Checked at registration for all b < blocks; immutable.
struct BlockLayout {
  struct Run {
    Region* region;
    uint64_t base, block_stride, run_length;
  };
  uint32_t blocks = 0;
  uint64_t part_bytes = 0;  // sum of the run lengths
  std::vector<Run> runs;    // the part's byte order
};

struct CopyItem {
  Claim claim;  // null = a copy inside the daemon. QUEUED when the command is pushed, unless the
                // client has revoked it
  std::byte* host = nullptr;            // start of this part in its slot
  uint64_t bytes = 0;                   // of the part
  const BlockLayout* layout = nullptr;  // with `block`; or null and `pieces`
  uint32_t block = 0;
  std::vector<Piece> pieces;  // explicit run list, in part order
  uint64_t seed = 0;          // put: part_seed, for the digest
  uint64_t deadline_ns = 0;   // from then on a QUEUED item is revoked, not claimed; 0 = none

  // Filled in by the worker. kOk (claim DONE), kRevoked / kTimeout (never touched), kAbandoned
  // (copied, doesn't count), kMemoryFault or kInternal (claim FAILED).
  Code status = Code::kInternal;
  uint64_t digest = 0;  // put, kOk, Device::hashes(): digest of the part
};

// kGetLayered: all items have layouts with the same number of runs; run r of every item is copied
// before run r+1 of any, and `progress` is raised to r+1 after it (release). One claim per item
// from first run to last. An item that is lost (revoked, late, failed) stops progress for good: a
// layer is announced only when it is there for every item. The others are still copied.
//
// All items of a command belong to one session: a fault of its memory fails a whole batch.
enum class CopyKind : uint8_t { kPut, kGet, kGetLayered };

struct CopyCommand {
  CopyKind kind = CopyKind::kPut;
  uint64_t token = 0;
  CopyItem* items = nullptr;
  uint32_t count = 0;
  std::atomic<uint64_t>* progress = nullptr;
};
struct CopyDone {
  uint64_t token = 0;
};

}  // namespace kvsidecar
