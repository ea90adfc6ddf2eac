// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/core/worker_threads.h"

namespace kvsidecar::fake3fs {

WorkerThreads::WorkerThreads(Server& server, unsigned count) : server_(server) {
  for (unsigned i = 0; i < count; ++i) threads_.emplace_back([this] { server_.work(); });
}

WorkerThreads::~WorkerThreads() {
  server_.stop();
  for (std::thread& thread : threads_) thread.join();
}

}  // namespace kvsidecar::fake3fs
