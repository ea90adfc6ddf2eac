// SPDX-License-Identifier: Apache-2.0
#include "sidecar/worker.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <thread>

#include "ipc/result.h"

namespace kvsidecar {

Waker::Waker() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) { KV_CHECK(fd_ >= 0); }
Waker::~Waker() { ::close(fd_); }

void Waker::wake() {
  // All four accesses (work, flag, on both sides) are seq_cst: either this load sees the flag, or
  // the sleeper's second look sees the work.
  if (sleeping_.load(std::memory_order_seq_cst) == 0) return;
  const uint64_t one = 1;
  (void)!::write(fd_, &one, sizeof one);
}

void Waker::announce() { sleeping_.store(1, std::memory_order_seq_cst); }

void Waker::sleep(uint64_t cap_ns) {
  pollfd waited{fd_, POLLIN, 0};
  const timespec cap{static_cast<time_t>(cap_ns / 1'000'000'000),
                     static_cast<long>(cap_ns % 1'000'000'000)};
  ::ppoll(&waited, 1, &cap, nullptr);
}

void Waker::retire() {
  lower();
  uint64_t drained = 0;
  (void)!::read(fd_, &drained, sizeof drained);
}

struct WorkerThread::State {
  Worker& worker;
  std::atomic<bool> stopping{false};
  std::thread thread;
};

namespace {

constexpr int kIdleTurnsBeforeSleep = 64;

void turn(Worker& worker, const std::atomic<bool>& stopping) {
  int idle_turns = 0;
  while (!stopping.load(std::memory_order_acquire)) {
    if (worker.step()) {
      idle_turns = 0;
      continue;
    }
    if (worker.must_poll() || ++idle_turns < kIdleTurnsBeforeSleep) {
      std::this_thread::yield();
      continue;
    }
    worker.waker().announce();
    if (!worker.has_work() && !stopping.load(std::memory_order_acquire))
      worker.waker().sleep(worker.sleep_cap_ns());
    worker.waker().retire();
    // One look after each sleep: a full round of yields for every capped sleep would keep an idle
    // daemon's cores warm.
    idle_turns = kIdleTurnsBeforeSleep - 1;
  }
}

}  // namespace

WorkerThread::WorkerThread(Worker& worker, std::string name) : state_(new State{worker, {}, {}}) {
  sigset_t all, before;
  sigfillset(&all);
  sigdelset(&all, SIGBUS);  // synchronous: the copy guard needs it
  sigdelset(&all, SIGSEGV);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  state_->thread = std::thread([this] { turn(state_->worker, state_->stopping); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(state_->thread.native_handle(), name.substr(0, 15).c_str());
}

WorkerThread::~WorkerThread() { stop(); }

void WorkerThread::stop() {
  if (!state_->thread.joinable()) return;
  state_->stopping.store(true, std::memory_order_seq_cst);
  state_->worker.waker().wake();
  state_->thread.join();
}

}  // namespace kvsidecar
