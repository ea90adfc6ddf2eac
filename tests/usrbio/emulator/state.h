// SPDX-License-Identifier: Apache-2.0
// All that the loaded library has: made by its first call, never destroyed (threads may still be in
// calls while the process ends).
#pragma once
#include <atomic>
#include <string>

#include "tests/usrbio/emulator/calls.h"
#include "tests/usrbio/emulator/daemon.h"
#include "tests/usrbio/emulator/descriptors.h"

namespace kvsidecar::emulator {

struct State {
  State();

  fake3fs::Faults faults;
  Mounts mounts;
  OpenFiles files;
  Descriptors descriptors;
  Daemon daemon;
  std::atomic<uint64_t> iov_handles{0}, ring_handles{0};

  // The mount of an open file, or empty: on none, or the daemon that opened it is dead.
  std::string mount_of(int fd) const;
  // "NAME VALUE" lines, or ';' between them; "release" releases what stalls. 0 or -EINVAL.
  int set_faults(const std::string& text);
  void kill_daemon();
};

State& state();

}  // namespace kvsidecar::emulator
