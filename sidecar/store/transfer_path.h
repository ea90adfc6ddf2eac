// SPDX-License-Identifier: Apache-2.0
// Another way for the store's reads and writes than the kernel's: USRBIO's rings. IoQueue asks it
// first; what it doesn't take goes through the kernel. One owner (the store worker); never blocks.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace kvsidecar {

enum class TransferClass : uint8_t { kDemandRead, kPrefetch, kWrite };

struct Transfer {
  TransferClass kind = TransferClass::kDemandRead;
  int fd = -1;
  uint64_t offset = 0;
  std::span<std::byte> pieces[2];  // the second may be empty; moved one after the other
};

class TransferPath {
 public:
  virtual ~TransferPath() = default;
  enum class Taken : uint8_t {
    kYes,
    kFull,    // not now: ask again after a completion
    kNotMine  // this memory or file isn't registered: the kernel's
  };
  virtual Taken start(const Transfer& transfer, uint64_t user) = 0;
  virtual void submit() = 0;  // after start()s
  struct Completion {
    uint64_t user = 0;
    int64_t result = 0;  // bytes moved from the beginning without a gap, or -errno
  };
  virtual bool next_completion(Completion& completion) = 0;
  virtual bool has_completion() const = 0;
  virtual size_t in_flight() const = 0;
  // Of those in flight: past their deadline. What they work on stays taken until they end.
  virtual size_t quarantined() const { return 0; }
  // When the oldest in flight began that isn't quarantined; 0 = none. Nothing announces their
  // completions: who waits for them looks now and then.
  virtual uint64_t oldest_ns() const { return 0; }
  // How many wait to be started, for metrics.
  virtual void note_waiting(TransferClass, size_t) {}
};

}  // namespace kvsidecar
