// SPDX-License-Identifier: Apache-2.0
// kvsidecar client, C++20 API: memory with an owner, and the arguments of operations.
#pragma once
#include <initializer_list>

#include "kvsidecar_op.hpp"

namespace kvsidecar::client {

// Memory handed out by the library and registered as a region; unregistered, acknowledged and
// unmapped at the end. Move-only; must not outlive its Client.
class Memory {
 public:
  Memory(kvs_client* client, kvs_region region, const kvs_memory& memory)
      : client_(client), region_(region), memory_(memory) {}
  Memory(Memory&& other) noexcept
      : client_(other.client_), region_(std::exchange(other.region_, 0)), memory_(other.memory_) {}
  Memory& operator=(Memory&&) = delete;
  ~Memory() {
    if (region_ != 0) (void)kvs_region_unregister(client_, region_, 0);
  }
  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(memory_.base), size()}; }
  size_t size() const { return static_cast<size_t>(memory_.bytes); }
  int fd() const { return memory_.fd; }
  kvs_region region() const { return region_; }

 private:
  kvs_client* client_;
  kvs_region region_;
  kvs_memory memory_;
};

struct Lookup {
  kvs_keys keys{};
  std::initializer_list<kvs_pool_policy> pools;
  uint64_t ticket = 0;
  uint32_t lease_ms = 0;
  bool prefetch = false;
  uint64_t timeout_ns = 0;
};

// kvs_transfer_args with its size filled in.
struct Transfer {
  kvs_namespace ns = 0;
  kvs_keys keys{};
  kvs_items items{};
  std::optional<kvs_coordinate> coordinate;
  bool durable = false;  // put
  kvs_fence fence = 0;
  uint64_t fence_value = 0;
  uint64_t timeout_ns = 0;
  uint32_t position = 0, prompt_pages = 0;     // put
  std::span<const std::byte> descriptions;     // put
  std::span<const uint32_t> description_ends;  // put
  uint64_t lease = 0;                          // get
  bool layered = false;                        // get

  kvs_transfer_args args() const {
    return {sizeof(kvs_transfer_args),
            ns,
            keys,
            items,
            coordinate ? 1u : 0u,
            coordinate.value_or(kvs_coordinate{}),
            durable ? 1u : 0u,
            fence,
            fence_value,
            timeout_ns,
            position,
            prompt_pages,
            descriptions.data(),
            description_ends.data(),
            lease,
            layered ? 1u : 0u,
            0};
  }
};

}  // namespace kvsidecar::client
