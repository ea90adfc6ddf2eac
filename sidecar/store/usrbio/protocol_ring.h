// SPDX-License-Identifier: Apache-2.0
// A ring of the builtin client with all that belongs to it: its memory, its name with the fuse
// daemon, the semaphore that makes the daemon look, our end. Made and destroyed on the mount
// thread; used as ClientRing says.
#pragma once
#include <memory>

#include "sidecar/store/usrbio/client_ring.h"
#include "sidecar/store/usrbio/registration.h"
#include "sidecar/store/usrbio/ring_file.h"
#include "sidecar/store/usrbio/submit_semaphore.h"

namespace kvsidecar::usrbio {

class ProtocolRing {
 public:
  // [mount] entries: 1 to kRingEntriesMax, kInvalid otherwise. A failure leaves nothing behind;
  // error: what the kernel said when the daemon refused.
  static Result<std::unique_ptr<ProtocolRing>> make(std::shared_ptr<Mount> mount, uint32_t entries,
                                                    const RingTerms& terms, int* error = nullptr);
  ClientRing& end() { return end_; }
  const ClientRing& end() const { return end_; }
  void submit() { semaphore_->post(); }
  std::span<std::byte> memory() const { return {file_->data(), file_->bytes()}; }
  const MemoryId& id() const { return id_; }

 private:
  ProtocolRing(const MemoryId& id, std::unique_ptr<RingFile> file,
               std::unique_ptr<Registration> registration,
               std::unique_ptr<SubmitSemaphore> semaphore, uint32_t entries);
  const MemoryId id_;
  const std::unique_ptr<RingFile> file_;  // outlives its registration and our end
  const std::unique_ptr<Registration> registration_;
  const std::unique_ptr<SubmitSemaphore> semaphore_;
  ClientRing end_;
};

}  // namespace kvsidecar::usrbio
