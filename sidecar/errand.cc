// SPDX-License-Identifier: Apache-2.0
#include "sidecar/errand.h"

namespace kvsidecar {
namespace {

class CallableErrand final : public Errand {
 public:
  CallableErrand(std::function<void()> run, std::function<void()> finish)
      : run_(std::move(run)), finish_(std::move(finish)) {}
  void run() override { run_(); }
  void finish() override {
    if (finish_) finish_();
  }

 private:
  std::function<void()> run_, finish_;
};

}  // namespace

std::unique_ptr<Errand> make_errand(std::function<void()> run, std::function<void()> finish) {
  return std::make_unique<CallableErrand>(std::move(run), std::move(finish));
}

Reaper::Reaper(size_t capacity, Waker* done_waker)
    : errands_(capacity), done_(capacity), done_waker_(done_waker) {}

bool Reaper::submit(std::unique_ptr<Errand>&& errand) {
  if (!errands_.try_push(std::move(errand))) return false;
  waker().wake();
  return true;
}

bool Reaper::poll(std::unique_ptr<Errand>& errand) { return done_.try_pop(errand); }

bool Reaper::step() {
  if (!kept_) {
    if (!errands_.try_pop(kept_)) return false;
    kept_->run();
  }
  if (!done_.try_push(std::move(kept_))) return false;
  kept_.reset();
  if (done_waker_ != nullptr) done_waker_->wake();
  return true;
}

bool Reaper::has_work() { return kept_ != nullptr || !errands_.empty(); }

}  // namespace kvsidecar
