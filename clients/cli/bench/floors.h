// SPDX-License-Identifier: Apache-2.0
// The floors: the least that anything could cost on this machine, written as plainly as possible.
// One thread, unless it says how many it starts.
#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include "clients/cli/bench/child.h"

namespace kvsidecar {

// A process that echoes 64-byte records over a pair of single-producer single-consumer rings.
class EchoFloor {
 public:
  // spinning: both sides look without pause; else both sleep on a futex.
  static Result<std::unique_ptr<EchoFloor>> start(bool spinning);
  ~EchoFloor();
  Result<double> round_trip_ns();

 private:
  EchoFloor(SharedMemory memory, bool spinning) : memory_(std::move(memory)), spinning_(spinning) {}
  SharedMemory memory_;
  bool spinning_;
  std::unique_ptr<Child> child_;
  uint64_t position_ = 0;
};

// Pieces of memory to copy, `to` and `from` alternating by thread.
struct Piece {
  std::byte* to;
  const std::byte* from;
  size_t bytes;
};
// Nanoseconds that `threads` threads need to memcpy all pieces, dealt out in equal shares.
double memcpy_ns(const std::vector<Piece>& pieces, uint32_t threads);

// An open-addressed hash table of 16-byte keys, half full, and nothing else.
class BareTable {
 public:
  explicit BareTable(const std::vector<std::byte>& keys);  // 16 bytes each
  // Nanoseconds for finding each of `keys`; `found` counts them so that nothing is left out.
  double find_ns(const std::vector<std::byte>& keys, uint64_t& found) const;

 private:
  struct Slot {
    uint64_t low = 0, high = 0, value = 0;
  };
  std::vector<Slot> slots_;
  uint64_t mask_;
};

}  // namespace kvsidecar
