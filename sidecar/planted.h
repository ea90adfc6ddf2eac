// SPDX-License-Identifier: Apache-2.0
// Places where the simulator's own test plants a known bug, to prove that the simulator would find
// it (tests/sim/planted_bugs_test.cc). In every build of the daemon planted() is false at compile
// time and leaves nothing in the objects, which a test checks; only the test's second compilation
// of these sources, with KVSIDECAR_PLANTED_BUGS, has the switches.
#pragma once
#include <cstdint>

namespace kvsidecar {

enum class Bug : uint8_t {
  kNone,
  kSlotReusedInFlight,     // a read is reported as failed and writes all the same, later
  kVisibleBeforeLastPart,  // a page counts as complete when nothing more of it is being copied
  kStaleDigest,            // a part's digest is seeded with another page of its batch
  kLostCompletion,         // now and then an answer is not sent
  kLeaseOutlivesSession,
  kGetAfterRevoke,      // a get copies without having won the claim
  kPutAfterAbandon,     // a part counts although its claim was not COPYING any more
  kAdoptedSlotAtOnce,   // FILLING slots of an earlier epoch are free at once
  kClearNotKept,        // a clear's generation is not written down
  kDoneTwice,           // a store reports a read twice
  kUnprovenPage,        // a page from the store is served though it failed its proof
  kMountLossEndsReads,  // reads end with their mount, and land all the same, later
};

#if defined(KVSIDECAR_PLANTED_BUGS)
bool planted(Bug bug);  // tests/sim/planted_bugs.cc
#else
consteval bool planted(Bug) { return false; }
#endif

}  // namespace kvsidecar
