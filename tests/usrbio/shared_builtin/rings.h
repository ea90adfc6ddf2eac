// SPDX-License-Identifier: Apache-2.0
// What a ring's struct points to. One thread may prepare while another waits.
#pragma once
#include <memory>
#include <mutex>

#include "sidecar/store/usrbio/protocol_ring.h"
#include "tests/usrbio/shared_builtin/c_functions.h"

namespace kvsidecar::shared_builtin {

struct RingHandle {
  std::mutex mutex;  // of the ring's end; not held while waiting
  std::unique_ptr<usrbio::ProtocolRing> ring;
  int entries;
};

inline RingHandle* handle_of(const Ior* ior) {
  return ior == nullptr ? nullptr : static_cast<RingHandle*>(ior->handle);
}

}  // namespace kvsidecar::shared_builtin
