// SPDX-License-Identifier: Apache-2.0
// What the bytes of handshake_fuzz mean. First the side that reads:
//   kDaemon: messages, each a Say and its bytes
//   kClient: u8 fds, u8 kinds (bit i: the i-th fd is of another kind), u8 edits; each edit u16
//            offset and u8 value of a WELCOME that is right; whatever is left replaces it
#pragma once
#include <cstdint>

namespace kvsidecar::fuzz {

enum class Side : uint8_t { kDaemon, kClient };
struct [[gnu::packed]] Say {
  uint8_t fds;
  uint16_t bytes;
};

}  // namespace kvsidecar::fuzz
