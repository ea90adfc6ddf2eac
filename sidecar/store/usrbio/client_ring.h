// SPDX-License-Identifier: Apache-2.0
// The client's end of a ring's memory. The server is another process that may write anything there:
// what it wrote is read once, checked, then used; nonsense ends the ring with a fault and never
// touches other memory. One owner; no system call, never blocks.
#pragma once
#include <semaphore.h>

#include <span>

#include "ipc/result.h"
#include "sidecar/store/usrbio/protocol.h"
#include "sidecar/store/usrbio/slots.h"

namespace kvsidecar::usrbio {

class ClientRing {
 public:
  // memory: RingLayout(entries).bytes(), zeroed when the server was told of it; outlives the ring.
  ClientRing(std::byte* memory, uint32_t entries);

  struct Io {
    MemoryId memory;
    uint64_t memory_offset, inode, file_offset, bytes;
  };
  // The I/O may run before anybody says so. The slot, 0 or more; -EAGAIN: no slot is free, or the
  // oldest I/O that the server has taken isn't done; -EPROTO: the ring has a fault.
  int prepare(const Io& io, uint64_t user);

  struct Ended {
    uint32_t slot;
    uint64_t user;
    uint64_t bytes;  // asked for
    int64_t result;  // as the server said it: may be more than asked
  };
  size_t poll(std::span<Ended> into);
  bool has_completion() const;
  // Not OK: the server wrote what can't be. What is outstanding stays outstanding.
  const Status& fault() const { return fault_; }
  uint32_t outstanding() const { return slots_.taken(); }
  // Posted by the server after each job.
  sem_t* done() const { return reinterpret_cast<sem_t*>(memory_ + layout_.semaphore()); }
  // Takes up to that many posts back, without waiting: nobody waits for them, and the server's
  // posts must not pile up to the semaphore's limit. A job ends at least one I/O.
  void discard_posts(size_t most);

 private:
  RingIndices& indices() const { return *reinterpret_cast<RingIndices*>(memory_); }
  uint32_t distance(uint32_t from, uint32_t to) const;
  bool room_for_submission();
  bool take_completion(Ended& ended);
  void end_with(std::string what);

  std::byte* const memory_;
  const RingLayout layout_;
  Slots slots_;
  uint32_t submission_head_ = 0;  // ours; the shared ones are only told
  uint32_t submission_tail_ = 0;  // the server's, as last seen and checked
  uint32_t completion_tail_ = 0;
  Status fault_;
};

}  // namespace kvsidecar::usrbio
