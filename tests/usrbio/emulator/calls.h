// SPDX-License-Identifier: Apache-2.0
// What may happen to a call before its work begins: it fails on demand, or it is one that the real
// library dies of.
#pragma once
#include <atomic>
#include <cstdint>

namespace kvsidecar::emulator {

class Calls {
 public:
  // errno that this call shall fail with, or 0. Counts it.
  int failure();
  void fail(uint64_t nth, int error);
  uint64_t count() const { return count_.load(); }

  // The real library dies here by this signal. Returns -EINVAL where that is switched off.
  int die(int signal) const;
  void set_deadly(bool deadly) { deadly_.store(deadly); }
  bool deadly() const { return deadly_.load(); }

 private:
  std::atomic<uint64_t> count_{0}, nth_{0};
  std::atomic<int> error_{0};
  std::atomic<bool> deadly_{true};
};

Calls& calls();

}  // namespace kvsidecar::emulator
