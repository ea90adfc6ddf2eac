// SPDX-License-Identifier: Apache-2.0
// The server's view of one ring's memory. The client writes there whatever it likes: each of its
// indices is read once and checked, a bad one is refused and never followed. One caller at a time
// (the Ring's lock); the client runs beside it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "ipc/result.h"
#include "tests/usrbio/core/ring_layout.h"

namespace kvsidecar::fake3fs {

class RingMemory {
 public:
  // A view of mapped memory, which must outlive it. kInvalid: too small, or not aligned.
  static Result<RingMemory> over(std::span<std::byte> mapped);

  uint32_t entries() const { return places_ - 1; }
  uint32_t places() const { return places_; }  // E: every index is below it
  uint32_t next(uint32_t at) const { return at + 1 == places_ ? 0 : at + 1; }
  uint32_t distance(uint32_t from, uint32_t to) const {
    return to >= from ? to - from : to + places_ - from;
  }

  void start();  // indices and semaphore to zero: the daemon does it when a ring is registered

  // What the client wrote; nullopt: it is no index of this ring.
  std::optional<uint32_t> sqe_head() const;
  std::optional<uint32_t> completions_waiting() const;  // posted and not taken yet
  struct Submission {
    int32_t slot = 0;
    IoArgs args = {};
    uint64_t user = 0;
  };
  std::optional<Submission> submission(uint32_t place) const;

  void set_sqe_tail(uint32_t place);
  bool append(int32_t slot, int64_t result, uint64_t user);  // false: no place, or a bad index
  void post();  // the completion semaphore, once per job

 private:
  explicit RingMemory(std::byte* base, uint32_t places) : base_(base), places_(places) {}
  int32_t& index(size_t number) const;
  IoArgs* args() const;
  IoCqe* cqes() const;
  IoSqe* sqes() const;
  sem_t* semaphore() const;

  std::byte* base_;
  uint32_t places_;
};

}  // namespace kvsidecar::fake3fs
