// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/emulator/calls.h"

#include <cerrno>
#include <csignal>

namespace kvsidecar::emulator {

int Calls::failure() {
  const uint64_t now = ++count_;
  return now == nth_.load() ? error_.load() : 0;
}

void Calls::fail(uint64_t nth, int error) {
  error_.store(error);
  nth_.store(nth);
  count_.store(0);
}

int Calls::die(int signal) const {
  if (deadly()) std::raise(signal);
  return -EINVAL;
}

Calls& calls() {
  static Calls all;
  return all;
}

}  // namespace kvsidecar::emulator
