// SPDX-License-Identifier: Apache-2.0
// Errands: whatever may hang or take long (mmap and munmap of big mappings, fallocate, driver
// calls, small files of the state directory) runs on a reaper and comes back to the conductor. An
// errand owns what it works on while it is away.
#pragma once
#include <functional>
#include <memory>

#include "sidecar/queue.h"
#include "sidecar/worker.h"

namespace kvsidecar {

class Errand {
 public:
  virtual ~Errand() = default;
  virtual void run() = 0;     // on the reaper; may block; must not touch the conductor's state
  virtual void finish() = 0;  // on the conductor, once, after run()
};

// Two callables as an errand; what run leaves for finish they share by capture.
std::unique_ptr<Errand> make_errand(std::function<void()> run, std::function<void()> finish);

class Reaper final : public Worker {
 public:
  Reaper(size_t capacity, Waker* done_waker);
  bool submit(std::unique_ptr<Errand>&& errand);  // conductor; false when full (errand untouched)
  bool poll(std::unique_ptr<Errand>& errand);     // conductor: call finish() on it
  bool has_done() const { return !done_.empty(); }
  bool step() override;
  bool has_work() override;

 private:
  Queue<std::unique_ptr<Errand>> errands_, done_;
  Waker* done_waker_;
  std::unique_ptr<Errand> kept_;  // run, but there was no room in done_
};

}  // namespace kvsidecar
