// SPDX-License-Identifier: Apache-2.0
// The ring of one class of transfers, what waits for it, and rings that it had before. One owner
// (the store worker).
#pragma once
#include <cerrno>
#include <deque>
#include <memory>
#include <vector>

#include "sidecar/store/usrbio/counters.h"
#include "sidecar/store/usrbio/staging.h"
#include "sidecar/store/usrbio/transfer_cut.h"

namespace kvsidecar {

struct RingUse {
  std::unique_ptr<usrbio::Ring> ring;
  size_t outstanding = 0;  // requests
  size_t lost = 0;         // transfers past their deadline
};

// A transfer that was taken.
struct MovingTransfer {
  uint64_t user = 0;
  std::function<void(int64_t result)> done;  // a probe: called instead of reporting `user`
  TransferClass kind = TransferClass::kDemandRead;
  const usrbio::File* file = nullptr;
  std::vector<TransferRequest> requests;
  size_t next = 0;  // the first that isn't started
  size_t outstanding = 0;
  RingUse* use = nullptr;  // of the latest request
  uint64_t begun_ns = 0;
  bool quarantined = false;
  bool stopped = false;  // one ended short or failed: what isn't started never will be

  bool all_started() const { return stopped || next == requests.size(); }
};

struct RingLane {
  std::unique_ptr<RingUse> current = std::make_unique<RingUse>();
  std::deque<MovingTransfer*> waiting;  // some of their requests aren't started
  std::vector<std::unique_ptr<RingUse>> retired;
  bool refused = false;      // the ring took no more: not before a completion is it asked again
  bool unsubmitted = false;  // requests that the server has not been told of

  // A ring takes requests only in a window that begins at its oldest one, so an I/O that never ends
  // stops it for good.
  bool stuck() const {
    if (current->ring == nullptr) return false;  // another one is on its way
    return (refused && current->lost > 0) || !current->ring->fault().ok();
  }
};

}  // namespace kvsidecar
