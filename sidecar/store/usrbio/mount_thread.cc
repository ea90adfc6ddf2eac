// SPDX-License-Identifier: Apache-2.0
#include "sidecar/store/usrbio/mount_thread.h"

#include "ipc/os.h"

namespace kvsidecar {
namespace {

constexpr size_t kQueue = 1024;
constexpr uint64_t kEndWaitNs = 5'000'000'000, kLookNs = 1'000'000;

}  // namespace

MountThread::MountThread(Waker& done_waker, bool own_thread)
    : reaper_(std::make_unique<Reaper>(kQueue, &done_waker)) {
  if (own_thread) thread_ = std::make_unique<WorkerThread>(*reaper_, "kvs-mount");
}

MountThread::~MountThread() {
  if (thread_ == nullptr) return;
  const uint64_t until_ns = monotonic_ns() + kEndWaitNs;
  Waker nobody;
  while (away_ > 0 && monotonic_ns() < until_ns)
    if (!poll()) nobody.sleep(kLookNs);
  if (away_ == 0) return;  // the thread ends with its object
  // It may never return, and it still works on the reaper.
  (void)thread_.release();
  (void)reaper_.release();
}

void MountThread::post(std::function<void()> run, std::function<void()> finish) {
  ++away_;
  waiting_.push_back(make_errand(std::move(run), std::move(finish)));
  while (!waiting_.empty() && reaper_->submit(std::move(waiting_.front()))) waiting_.pop_front();
}

bool MountThread::poll() {
  while (!waiting_.empty() && reaper_->submit(std::move(waiting_.front()))) waiting_.pop_front();
  bool any = false;
  std::unique_ptr<Errand> errand;
  while (reaper_->poll(errand)) {
    --away_;
    any = true;
    errand->finish();
    errand.reset();
  }
  return any;
}

bool MountThread::has_done() const { return reaper_->has_done(); }

void MountThread::run_one() { (void)reaper_->step(); }

}  // namespace kvsidecar
