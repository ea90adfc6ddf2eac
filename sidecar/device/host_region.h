// SPDX-License-Identifier: Apache-2.0
// A region of the host device: one mapping of a range of a client's file. The mapping lives until
// close, whatever becomes of the client. Used by host_device.cc and host_queue.cc only.
#pragma once
#include <atomic>

#include "ipc/os.h"
#include "sidecar/device/device.h"

namespace kvsidecar {

class HostRegion final : public Region {
 public:
  HostRegion(MappedMemory memory, uint64_t bytes) : Region(bytes), memory_(std::move(memory)) {}

  // The region behind an interface pointer, open; anything else is our own bug.
  static HostRegion& open(Region& region) {
    auto& host = static_cast<HostRegion&>(region);
    KV_CHECK(host.state_.load(std::memory_order_acquire) == kOpen);
    return host;
  }
  std::byte* data() const { return memory_.data(); }
  bool holds(uint64_t offset, uint64_t count) const {
    return offset <= bytes() && count <= bytes() - offset;
  }

  // A batch that names the region is in flight.
  void enter() { users_.fetch_add(1, std::memory_order_acq_rel); }
  void leave() { users_.fetch_sub(1, std::memory_order_acq_rel); }
  void shut() {
    KV_CHECK(users_.load(std::memory_order_acquire) == 0);
    state_.store(kClosed, std::memory_order_release);
    memory_ = MappedMemory();
  }

 private:
  static constexpr uint64_t kOpen = 0x6f70656e6b767363, kClosed = 0x636c6f736b767363;
  std::atomic<uint64_t> state_{kOpen};
  std::atomic<uint32_t> users_{0};
  MappedMemory memory_;
};

}  // namespace kvsidecar
