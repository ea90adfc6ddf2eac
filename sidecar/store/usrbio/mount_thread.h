// SPDX-License-Identifier: Apache-2.0
// The one thread that makes every call which waits for the fuse daemon, in the order in which they
// were asked for. What hangs there hangs nobody else: the store worker only asks, and takes answers
// from poll(). One thread for a client's whole life, because the fuse daemon reclaims what a dead
// process left by the id of the thread that made it.
#pragma once
#include <deque>
#include <functional>
#include <memory>

#include "sidecar/errand.h"

namespace kvsidecar {

class MountThread {
 public:
  // done_waker: woken when an answer is there. own_thread false: run_one() is the thread (tests).
  MountThread(Waker& done_waker, bool own_thread);
  // Waits for the call under way, for at most five seconds; a thread that hangs is left behind.
  ~MountThread();

  // Asker: the store worker, and before it runs and after it ended whoever opens and closes the
  // store. run() there, then finish() from poll(), in order. Never fails.
  void post(std::function<void()> run, std::function<void()> finish);
  bool poll();  // true: something was finished
  bool has_done() const;
  size_t away() const { return away_; }  // posted and not finished
  void run_one();

 private:
  std::unique_ptr<Reaper> reaper_;
  std::unique_ptr<WorkerThread> thread_;
  std::deque<std::unique_ptr<Errand>> waiting_;  // the reaper's queue is full
  size_t away_ = 0;
};

}  // namespace kvsidecar
