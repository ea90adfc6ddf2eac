// SPDX-License-Identifier: Apache-2.0
// Workers stand around the conductor: each has a bounded command queue in and a bounded completion
// queue out, and a step(). In production a WorkerThread turns step(); the simulator turns all of
// them in one thread. Waker wakes a sleeping thread: the sleeper announces itself, looks once more
// and sleeps with a cap, so that a lost wake-up is slow and never a hang.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace kvsidecar {

class Waker {
 public:
  Waker();  // an eventfd; aborts when none can be had (start-up only)
  ~Waker();
  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;
  // Any thread, after it has made work visible (seq_cst store). Cheap when nobody sleeps.
  void wake();
  // The sleeper: announce(); if there is still nothing to do, sleep(cap) ; retire().
  void announce();
  void sleep(uint64_t cap_ns);
  void retire();
  // A sleeper that waits in an edge-triggered epoll instead of sleep(): announce(), lower().
  void lower() { sleeping_.store(0, std::memory_order_seq_cst); }
  int fd() const { return fd_; }

 private:
  int fd_;
  std::atomic<uint32_t> sleeping_{0};
};

class Worker {
 public:
  virtual ~Worker() = default;
  // Does what can be done now without blocking on other parts of the daemon (it may block in a
  // system call where that is the worker's job). True when it did something.
  virtual bool step() = 0;
  // True when step() would find something; called after Waker::announce().
  virtual bool has_work() = 0;
  // While true, the thread polls instead of sleeping (copies or I/O in flight that no waker
  // announces).
  virtual bool must_poll() { return false; }
  // The longest sleep. Shorter only for what has to look at a clock: a dozen threads that look in
  // at times are an idle daemon's whole work.
  virtual uint64_t sleep_cap_ns() const { return 1'000'000'000; }
  Waker& waker() { return waker_; }

 private:
  Waker waker_;
};

// Turns a worker until stopped. The worker must outlive it.
class WorkerThread {
 public:
  WorkerThread(Worker& worker, std::string name);  // name: at most 15 bytes, as in top -H
  ~WorkerThread();                                 // stops and joins
  void stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvsidecar
