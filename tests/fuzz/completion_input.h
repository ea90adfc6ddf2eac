// SPDX-License-Identifier: Apache-2.0
// What the bytes of completion_fuzz mean: u8 options (1: small rings, 2: closed in the end), then
// moves, one after the other, each its number and what it takes. A pick chooses among what there
// is, modulo its number.
#pragma once
#include <cstdint>

namespace kvsidecar::fuzz {

enum class Step : uint8_t {
  kBegin,      // u8 kind, u8 count, u8 flags, u8 timeout in ms
  kTick,       // u16 tenths of a millisecond that pass
  kTake,       // the daemon takes all records that came
  kCopy,       // u8 pick of a request, u8 pick of an item: QUEUED -> COPYING
  kEnd,        // the same and u8 how: COPYING -> DONE or FAILED, QUEUED -> SKIPPED
  kServe,      // u8 pick: every item of it copied to its end, then answered in order
  kAnswer,     // u8 pick, u8 status, u8 item status, u8 cells, u8 edits; each edit u16, u8 value
  kRaw,        // CompletionHead, u8 payload bytes; payload
  kWord,       // u8 which word of the info page, u8 pick, u64 value
  kCancel,     // u8 pick of an operation
  kRevoke,     // u8 pick, u8 pick of an item
  kErase,      // u8 pick
  kPoll,       // takes the events
  kLose,       // u8: 1 the daemon died, 0 hung up
  kReconnect,  // a new daemon
  kSteps
};
enum class Kind : uint8_t {
  kPut,
  kGet,
  kStagedPut,
  kStagedGet,
  kRunsGet,
  kLookup,
  kDelete,
  kStat,
  kWhy,
  kRelease,
  kClear,
  kRegion,
  kKinds
};
enum BeginFlags : uint8_t { kLayered = 1, kTicket = 2, kMany = 4 };

}  // namespace kvsidecar::fuzz
