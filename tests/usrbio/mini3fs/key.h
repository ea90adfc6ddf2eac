// SPDX-License-Identifier: Apache-2.0
// What a client's symlink in 3fs-virt/iovs says by its name: an iov ("UUID", "UUID.b4096") or a
// ring ("UUID.r0.t0", "UUID.w-3.ph.t0.f1"). Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "tests/usrbio/core/ring.h"

namespace kvsidecar::fake3fs {

struct Key {
  Id id = {};
  uint64_t block_bytes = 0;
  std::optional<RingOptions> ring;
};

// 0 or -errno: -EIO no uuid, -EINVAL the rest. Parts with an unknown letter say nothing; of several
// directions the last holds.
int parse_key(std::string_view text, Key& key);

}  // namespace kvsidecar::fake3fs
