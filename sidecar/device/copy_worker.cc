// SPDX-License-Identifier: Apache-2.0
#include "sidecar/device/copy_worker.h"

#include "sidecar/device/copy_batch.h"

namespace kvsidecar {

namespace {

constexpr uint32_t kLoadBatchesPerStore = 8;  // loads go first, yet never starve a waiting store

}  // namespace

struct CopyWorker::State {
  State(Device& copy_device, Clock& copy_clock, size_t capacity, Waker* waker)
      : clock(copy_clock),
        hashing(copy_device.hashes()),
        done_waker(waker),
        commands(capacity),
        done(capacity),
        device_queue(copy_device.make_queue()) {}

  std::deque<RunningCommand>& first_waiting() {
    const bool store_is_due = !stores.empty() && loads_ahead >= kLoadBatchesPerStore;
    return loads.empty() || store_is_due ? stores : loads;
  }
  bool may_take() { return loads.size() + stores.size() < done.room(); }
  void take_commands();
  bool start_batch();
  uint64_t end_batch();
  void complete(std::deque<RunningCommand>& finished);

  Clock& clock;
  const bool hashing;
  Waker* const done_waker;
  Queue<CopyCommand> commands;
  Queue<CopyDone> done;
  // Taken, unfinished; the front of each may be half done. For each of them `done` has room.
  std::deque<RunningCommand> loads, stores;
  uint32_t loads_ahead = 0;             // batches of loads that passed a waiting store in a row
  RunningCommand* in_flight = nullptr;  // whose batch the device has
  uint64_t ticket = 0;
  // Last: goes first, while the batch that it may still hold is there.
  std::unique_ptr<CopyQueue> device_queue;
};

void CopyWorker::State::take_commands() {
  CopyCommand command;
  while (may_take() && commands.try_pop(command))
    (command.kind == CopyKind::kPut ? stores : loads).emplace_back(command, hashing);
}

// False when there is nothing to do. Commands that have no batch left are completed on the way.
bool CopyWorker::State::start_batch() {
  std::deque<RunningCommand>& waiting = first_waiting();
  if (waiting.empty()) return false;
  RunningCommand& command = waiting.front();
  if (!command.next_batch(clock.now_ns())) {
    complete(waiting);
  } else if (command.pieces().empty()) {
    command.settle(Code::kOk);
  } else {
    in_flight = &command;
    if (&waiting == &loads && !stores.empty()) ++loads_ahead;
    ticket = device_queue->submit(command.direction(), command.pieces(), command.leaves());
  }
  return true;
}

// Bytes of the batch that ended; 0 while it is still in flight.
uint64_t CopyWorker::State::end_batch() {
  CopyQueue::Done ended;
  if (device_queue->poll({&ended, 1}) == 0) return 0;
  KV_CHECK(ended.ticket == ticket);
  in_flight->settle(ended.status);
  return std::exchange(in_flight, nullptr)->batch_bytes();
}

void CopyWorker::State::complete(std::deque<RunningCommand>& finished) {
  KV_CHECK(done.try_push(CopyDone{finished.front().token()}));
  finished.pop_front();
  if (&finished == &stores) loads_ahead = 0;
  if (done_waker != nullptr) done_waker->wake();
}

CopyWorker::CopyWorker(Device& device, Clock& clock, size_t capacity, Waker* done_waker)
    : state_(std::make_unique<State>(device, clock, capacity, done_waker)) {}

CopyWorker::~CopyWorker() = default;

bool CopyWorker::submit(const CopyCommand& command) {
  if (!state_->commands.try_push(command)) return false;
  waker().wake();
  return true;
}

bool CopyWorker::has_done() const { return !state_->done.empty(); }

bool CopyWorker::poll(CopyDone& done) {
  if (!state_->done.try_pop(done)) return false;
  if (!state_->commands.empty()) waker().wake();  // the worker may sleep for want of room
  return true;
}

size_t CopyWorker::room() { return state_->commands.room(); }

// Moves about one full batch, so that a small command ends in the step that begins it and a thread
// is never away for long.
bool CopyWorker::step() {
  bool worked = false;
  for (uint64_t moved = 0; moved < kBatchBytes;) {
    state_->take_commands();
    if (state_->in_flight == nullptr) {
      if (!state_->start_batch()) break;
      worked = true;
    }
    if (state_->in_flight == nullptr) continue;
    const uint64_t bytes = state_->end_batch();
    if (bytes == 0) break;
    worked = true;
    moved += bytes;
  }
  return worked;
}

bool CopyWorker::has_work() {
  return state_->in_flight != nullptr || !state_->loads.empty() || !state_->stores.empty() ||
         (!state_->commands.empty() && state_->may_take());
}

bool CopyWorker::must_poll() { return state_->in_flight != nullptr; }

}  // namespace kvsidecar
