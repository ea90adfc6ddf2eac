// SPDX-License-Identifier: Apache-2.0
// A copy worker: claims items, moves their bytes through a device's queue in batches of at most 8
// MiB, and makes the digest of what it stores. Commands run in order of arrival; loads that wait go
// before stores that wait, but for one batch in nine. The conductor keeps one that no thread turns,
// for copies of at most 512 KiB that it runs itself.
#pragma once
#include <deque>
#include <memory>
#include <vector>

#include "sidecar/device/copy_command.h"
#include "sidecar/env.h"
#include "sidecar/queue.h"
#include "sidecar/worker.h"

namespace kvsidecar {

class CopyWorker final : public Worker {
 public:
  // `done_waker` (may be null) is woken when completions were pushed. Both queues hold `capacity`
  // entries; a command is taken only while there is room for its completion.
  CopyWorker(Device& device, Clock& clock, size_t capacity, Waker* done_waker);
  ~CopyWorker() override;

  // Conductor. False when full.
  bool submit(const CopyCommand& command);
  bool poll(CopyDone& done);
  bool has_done() const;  // poll would find something; for the second look before sleeping
  size_t room();

  bool step() override;
  bool has_work() override;
  bool must_poll() override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvsidecar
