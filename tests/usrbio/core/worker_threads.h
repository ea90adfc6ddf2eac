// SPDX-License-Identifier: Apache-2.0
// Threads that work for a server until this is destroyed.
#pragma once
#include <thread>
#include <vector>

#include "tests/usrbio/core/server.h"

namespace kvsidecar::fake3fs {

class WorkerThreads {
 public:
  WorkerThreads(Server& server, unsigned count);
  ~WorkerThreads();  // stops the server and joins: then nothing of it touches memory any more
  WorkerThreads(const WorkerThreads&) = delete;
  WorkerThreads& operator=(const WorkerThreads&) = delete;

 private:
  Server& server_;
  std::vector<std::thread> threads_;
};

}  // namespace kvsidecar::fake3fs
