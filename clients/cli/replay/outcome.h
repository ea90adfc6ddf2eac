// SPDX-License-Identifier: Apache-2.0
// What a status means to an engine that is replayed. Pure; any thread.
#pragma once
#include "clients/cpp/kvsidecar_status.h"

namespace kvsidecar {

// A miss in one of its forms: the page isn't there, can't be read, doesn't prove itself, or there
// is no room at the moment. Never a failure.
constexpr bool is_miss(kvs_status status) {
  return status == KVS_MISS || status == KVS_BUSY || status == KVS_IO_ERROR ||
         status == KVS_CORRUPT || status == KVS_EXPIRED;
}

// What requests may end with when the daemon dies under them, and at no other time.
constexpr bool is_sign_of_death(kvs_status status) {
  return status == KVS_UNAVAILABLE || status == KVS_TIMEOUT || status == KVS_REVOKED ||
         status == KVS_ABANDONED || status == KVS_STALE_HANDLE || status == KVS_UNKNOWN_HANDLE ||
         status == KVS_DRAINING;
}

}  // namespace kvsidecar
