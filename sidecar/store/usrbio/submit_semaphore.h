// SPDX-License-Identifier: Apache-2.0
// The fuse daemon's semaphore of one priority: who posts it makes the daemon look at all rings of
// that priority. Named anew with each life of the daemon, so one per mount.
#pragma once
#include <semaphore.h>

#include <memory>

#include "ipc/os.h"
#include "sidecar/store/usrbio/mount.h"

namespace kvsidecar::usrbio {

class SubmitSemaphore {
 public:
  // [mount] priority: below 0 high, above 0 low.
  static Result<std::unique_ptr<SubmitSemaphore>> open(const Mount& mount, int priority = 0);
  void post();  // never blocks; any thread

 private:
  explicit SubmitSemaphore(MappedMemory memory) : memory_(std::move(memory)) {}
  MappedMemory memory_;
};

}  // namespace kvsidecar::usrbio
