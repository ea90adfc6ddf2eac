// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/emulator/idle_scans.h"

#include <chrono>

namespace kvsidecar::emulator {

IdleScans::IdleScans(fake3fs::Server& server) : server_(server), thread_([this] { scan(); }) {}

IdleScans::~IdleScans() {
  {
    std::lock_guard hold(lock_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void IdleScans::set_wanted(bool wanted) {
  std::lock_guard hold(lock_);
  wanted_ = wanted;
  changed_.notify_all();
}

void IdleScans::scan() {
  std::unique_lock hold(lock_);
  while (!ending_) {
    if (!wanted_) {
      changed_.wait(hold, [this] { return wanted_ || ending_; });
      continue;
    }
    for (size_t priority = 0; priority < fake3fs::kPriorities; ++priority) {
      server_.idle(static_cast<fake3fs::Priority>(priority));
    }
    changed_.wait_for(hold, std::chrono::milliseconds(1), [this] { return ending_; });
  }
}

}  // namespace kvsidecar::emulator
