// SPDX-License-Identifier: Apache-2.0
// The three named semaphores that clients post after preparing I/O, and a thread for each that
// waits for posts. A server has new ones each time it starts: rings of an earlier one post to
// nobody.
#pragma once
#include <semaphore.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "tests/usrbio/core/server.h"

namespace kvsidecar::fake3fs {

class SubmitSemaphores {
 public:
  // Their names are kept in that file, and those found in it, of a server that was killed, removed.
  static Result<std::unique_ptr<SubmitSemaphores>> make(Server& server, Faults& faults,
                                                        const std::string& names_file);
  ~SubmitSemaphores();
  // "/dev/shm/sem.hf3fs-submit-ios.UUID"
  const std::string& path(Priority priority) const { return paths_[static_cast<size_t>(priority)]; }

 private:
  SubmitSemaphores(Server& server, Faults& faults) : server_(server), faults_(faults) {}
  void watch(Priority priority);

  Server& server_;
  Faults& faults_;
  std::atomic<bool> stopping_ = false;
  std::array<sem_t*, kPriorities> semaphores_ = {};
  std::array<std::string, kPriorities> paths_;
  std::array<std::thread, kPriorities> watchers_;
};

}  // namespace kvsidecar::fake3fs
