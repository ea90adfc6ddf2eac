// SPDX-License-Identifier: Apache-2.0
// What the bytes of conductor_fuzz mean: u8 options, u8 seed of a plan, then moves, one after the
// other, each its number and what it takes.
#pragma once
#include <cstddef>
#include <cstdint>

namespace kvsidecar::fuzz {

enum class Move : uint8_t {
  kRawRecord,  // u8 payload bytes; RecordHead; payload: a cell as it is
  kRecord,     // u8 type, u16 payload bytes; payload: under a head that is right
  kRequest,    // u8 type, u8 key, u8 block, u8 flags, u8 edits; each edit u16 offset, u8 value
  kPublish,    // u8 n: what was written; 255: u64 takes its place
  kConsume,    // u8 0: all answers that came, their handles used from now on; else u64
  kClaim,      // u16 word, u64 value
  kFence,      // u8 word, u64 value
  kSteps,      // u8
  kTime,       // u32 microseconds
  kFd,         // u8 token, u8 kind
  kMemory,     // u16 offset, u8 value
  kReopen,     // dies; another session comes
  kNeighbour,  // u8 key: another session puts, looks up and gets
  kMoves
};
enum RequestFlags : uint8_t {
  kDurable = 1,
  kLease = 2,
  kPrefetch = 4,
  kFenced = 8,
  kRuns = 16,
  kThree = 32,  // keys and blocks, one after the other
  kGroup = 64   // attach: as a rank of a group; lookup: with a ticket
};

// What the move at `data` takes, its number included; at most `left`.
size_t move_bytes(const uint8_t* data, size_t left);

}  // namespace kvsidecar::fuzz
