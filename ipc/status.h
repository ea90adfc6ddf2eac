// SPDX-License-Identifier: Apache-2.0
// What became of a request or of one item of it: the one list of statuses, mirrored by `Status` in
// kvsidecar.fbs (asserted equal in codec.cc) and by KVS_* in the C ABI. Values are wire-stable.
//
// Beside each status stands who owns the item's engine memory once the caller has seen it, and the
// metric that counts it. "engine" means: the daemon will not touch those bytes any more.
#pragma once
#include <cstdint>
#include <string_view>

namespace kvsidecar {

enum class Code : uint8_t {
  kOk = 0,         // engine. put: pages_put_stored; get: pages_get_host / pages_get_store
  kOkPart = 1,     // engine. put of one part while others are missing; parts_put
  kExists = 2,     // engine. put of a complete page; pages_put_exists
  kMiss = 3,       // engine. get of an absent page; pages_get_miss
  kNotStored = 4,  // engine. durable put: the page is in host memory, not in the store; not_stored
  kTimeout = 5,    // engine. the deadline passed before the copy began; *_failed
  kRevoked = 6,    // engine. the client revoked the claim before the copy began; *_failed
  kAbandoned = 7,  // engine. a put given up while it was copied: never a page; pages_put_abandoned
  kBusy = 8,     // engine. a queue was full or no slot could be freed; pages_put_refused / get miss
  kIoError = 9,  // engine. the store could not read the page: a miss of it; pages_get_miss
  kCorrupt = 10,        // engine. the bytes did not prove themselves: a miss of it; pages_get_miss
  kInvalid = 11,        // engine. a field is wrong; the text names it, its value and the remedy
  kUnknownHandle = 12,  // engine. namespace, region, layout or lease that this session doesn't have
  kStaleHandle = 13,    // engine. a handle of an earlier epoch of the daemon
  kStaleNamespace = 14,  // engine. the namespace was cleared since this session attached
  kStaleMapping = 15,    // engine. the echo failed: that mapping is not this client's memory
  kExpired = 16,         // engine. a lease or a group's ticket has ended
  kDenied = 17,          // engine. no [[allow]] entry lists this uid, gid or operation
  kOverQuota = 18,       // engine. the session would exceed a quota of its [[allow]] entry
  kMemoryFault = 19,     // engine. engine memory vanished under the copy; ends the session
  kUnavailable = 20,     // see kvsidecar.h. made by the client library: no daemon answers
  kUnsupportedVersion = 21,
  kDraining = 22,  // engine. the daemon is shutting down and takes no new work
  kInternal = 23,  // engine. a worker failed in a way that has no name of its own
};
inline constexpr uint8_t kCodesMax = 24;

// "OK", "MISS", … as in logs, metrics and the CLI. Never null; "?" for an unknown value.
std::string_view code_name(Code code);

// A page or part that is now where the caller wanted it.
constexpr bool is_success(Code code) {
  return code == Code::kOk || code == Code::kOkPart || code == Code::kExists;
}

}  // namespace kvsidecar
