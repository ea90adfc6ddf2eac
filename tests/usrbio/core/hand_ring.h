// SPDX-License-Identifier: Apache-2.0
// The client's side of a ring, driven by hand: offsets are written out here as numbers, apart from
// the server's declaration, so that a mistake there is found. One thread.
#pragma once
#include <semaphore.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "tests/usrbio/core/ring_layout.h"

namespace kvsidecar::fake3fs {

class HandRing {
 public:
  // memory: of 4144 + 96 * (entries + 1) bytes, which must outlive this.
  HandRing(std::span<std::byte> memory, uint32_t entries);

  struct Request {
    Id buffer = {};
    uint64_t buffer_offset = 0, inode = 0, file_offset = 0, bytes = 0, user = 0;
  };
  int prepare(const Request& request);  // the slot, or -EAGAIN

  struct Done {
    int32_t slot = 0;
    int64_t result = 0;
    uint64_t user = 0;
  };
  std::vector<Done> take();              // all that is there now
  std::vector<Done> wait(size_t count);  // that many; gives up after 20 s with what it has

  int posts() const;                // of the completion semaphore that nobody has waited for
  int32_t index(int number) const;  // 0 submission head, 1 its tail, 2 completion head, 3 its tail
  void set_index(int number, int32_t value);
  void set_slot(uint32_t place, int32_t slot);  // of a submission that is already prepared
  std::byte* completion(uint32_t place) const { return base_ + 16 + 56 * places_ + 24 * place; }

 private:
  std::byte* submission(uint32_t place) const { return base_ + 16 + 80 * places_ + 16 * place; }
  sem_t* semaphore() const { return reinterpret_cast<sem_t*>(base_ + 16 + 96 * places_); }

  std::byte* base_;
  uint64_t places_;
  std::set<int32_t> free_;
};

}  // namespace kvsidecar::fake3fs
