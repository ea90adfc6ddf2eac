// SPDX-License-Identifier: Apache-2.0
// The server's side of a ring in the test's hand. Offsets are spelled here as numbers of the
// protocol's facts, not taken from the client's declaration.
#pragma once
#include <semaphore.h>

#include <cstring>
#include <optional>
#include <vector>

#include "sidecar/store/usrbio/client_ring.h"

namespace kvsidecar::usrbio {

class RingServer {
 public:
  explicit RingServer(uint32_t entries)
      : places_(entries + 1), own_(4144 + 96 * places_), memory_(own_.data()) {
    ::sem_init(done(), 1, 0);
  }
  // On a ring's own memory.
  RingServer(std::byte* memory, uint32_t entries) : places_(entries + 1), memory_(memory) {
    ::sem_init(done(), 1, 0);
  }

  struct Submission {
    int32_t index;
    uint64_t user;
  };
  struct Arguments {
    uint8_t memory[16];
    uint64_t memory_offset, inode, file_offset, bytes, user;
  };
  // The next one that the client has published, in order.
  std::optional<Submission> next() {
    if (taken_ == word(0)) return std::nullopt;
    Submission found{};
    std::memcpy(&found.index, memory_ + 16 + 80 * places_ + 16 * at(taken_), 4);
    std::memcpy(&found.user, memory_ + 16 + 80 * places_ + 16 * at(taken_) + 8, 8);
    taken_ = after(taken_);
    return found;
  }
  Arguments arguments(int32_t index) const {
    Arguments found;
    std::memcpy(&found, memory_ + 16 + 56 * at(index), sizeof found);
    return found;
  }
  void advance_tail() { word(4) = after(word(4)); }
  void complete(int32_t index, uint64_t user, int64_t result) {
    std::byte* to = memory_ + 16 + 56 * places_ + 24 * at(word(8));
    std::memcpy(to, &index, 4);
    std::memcpy(to + 8, &result, 8);
    std::memcpy(to + 16, &user, 8);
    word(8) = after(word(8));
    ::sem_post(done());
  }
  // Takes the next one and ends it at once.
  Submission serve(int64_t result) {
    const auto found = next();
    KV_CHECK(found.has_value());
    advance_tail();
    complete(found->index, found->user, result);
    return *found;
  }

  int32_t& submission_head() { return word(0); }
  int32_t& submission_tail() { return word(4); }
  int32_t& completion_head() { return word(8); }
  int32_t completion_tail() { return word(12); }
  sem_t* done() { return reinterpret_cast<sem_t*>(memory_ + 16 + 96 * places_); }
  int posts() {
    int value = 0;
    ::sem_getvalue(done(), &value);
    return value;
  }
  std::byte* memory() { return memory_; }

 private:
  static size_t at(int32_t index) { return static_cast<size_t>(index); }
  int32_t& word(size_t offset) { return *reinterpret_cast<int32_t*>(memory_ + offset); }
  int32_t after(int32_t index) const { return at(index) + 1 == places_ ? 0 : index + 1; }

  const size_t places_;
  std::vector<std::byte> own_;
  std::byte* const memory_;
  int32_t taken_ = 0;
};

}  // namespace kvsidecar::usrbio
