// SPDX-License-Identifier: Apache-2.0
// What is in flight on one ring: a fixed number of slots, each with a generation, so that a late or
// doubled completion is never taken for that of a newer I/O. One owner; no allocation after
// construction.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

namespace kvsidecar::usrbio {

class Slots {
 public:
  explicit Slots(uint32_t count);

  struct Taken {
    uint32_t slot;
    uint64_t token;  // the slot and its generation; never 0
  };
  std::optional<Taken> take(uint64_t user, uint64_t bytes);  // the lowest free one

  struct Io {
    uint64_t user;
    uint64_t bytes;
  };
  // Frees the slot of that token. Empty: no such slot, or it isn't the one in flight.
  std::optional<Io> finish(uint64_t token);

  uint32_t taken() const { return taken_; }
  uint32_t count() const { return static_cast<uint32_t>(slots_.size()); }
  static uint32_t slot_of(uint64_t token) { return static_cast<uint32_t>(token); }

 private:
  struct Slot {
    Io io{};
    uint32_t generation = 0;
    bool taken = false;
  };
  std::vector<Slot> slots_;
  std::vector<uint64_t> free_;  // a bit per slot
  uint32_t taken_ = 0;
};

}  // namespace kvsidecar::usrbio
