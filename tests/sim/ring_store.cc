// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/ring_store.h"

#include <algorithm>

#include "tests/sim/planted_bugs.h"

namespace kvsidecar::sim {
namespace {

constexpr uint64_t kMs = 1'000'000;
// A job's ordinary time in steps; what a stall takes beyond the deadlines of most requests.
constexpr uint64_t kJobStepsMax = 10, kStallNsMax = 20 * kMs, kLongStallNsMax = 60'000 * kMs;
constexpr uint64_t kCallStepsMax = 6;
constexpr uint64_t kRingStepsMax = 20;  // until a ring that is stuck is replaced

bool overlap(const StoreCommand& a, const StoreCommand& b) {
  return a.page != nullptr && b.page != nullptr && a.page < b.page + b.page_bytes &&
         b.page < a.page + a.page_bytes;
}

}  // namespace

RingStore::RingStore(std::shared_ptr<MemoryDisk> disk, const MemoryStore::Options& options,
                     const RingPlan& plan, Clock& clock, Random& random, Trace& trace)
    : disk_(std::move(disk)),
      options_(options),
      plan_(plan),
      clock_(clock),
      random_(random),
      trace_(trace),
      faults_(plan.faults) {
  begin_mount();
  phase_ = Phase::kUp;
}

bool RingStore::submit(StoreCommand&& command) {
  if (outstanding_ >= options_.queue_capacity) return false;
  ++outstanding_;
  check_memory(command);
  commands_.push_back(std::move(command));
  return true;
}

bool RingStore::poll(StoreDone& done) {
  if (done_.empty()) return false;
  done = std::move(done_.front());
  done_.pop_front();
  if (!done.found) --outstanding_;
  return true;
}

bool RingStore::must_poll() {
  if (!commands_.empty() || !ghosts_.empty()) return true;
  return std::any_of(rings_.begin(), rings_.end(), [](const Ring& ring) {
    return !ring.waiting.empty() || !ring.prepared.empty() || !ring.jobs.empty();
  });
}

void RingStore::for_ops(const std::function<void(Op&)>& visit) {
  for (Ring& ring : rings_) {
    for (Op& op : ring.prepared) visit(op);
    for (Job& job : ring.jobs)
      for (Op& op : job.ops) visit(op);
  }
}

void RingStore::check_memory(const StoreCommand& command) {
  const auto look = [&](const StoreCommand& other) {
    if ((command.op == StoreOp::kRead || other.op == StoreOp::kRead) && overlap(command, other))
      trace_.violation("two store operations are in flight over the same memory");
  };
  for_ops([&](const Op& op) { look(op.command); });
  for (const StoreCommand& other : commands_) look(other);
  for (const Ring& ring : rings_)
    for (const StoreCommand& other : ring.waiting) look(other);
}

RingStore::Ring& RingStore::ring_of(const StoreCommand& command) {
  if (command.op != StoreOp::kRead) return rings_[2];
  return rings_[command.prefetch ? 1 : 0];
}

// The files answer at once; what makes them slow is here.
std::vector<StoreDone> RingStore::perform(StoreCommand&& command) {
  KV_CHECK(files_->submit(std::move(command)));
  std::vector<StoreDone> all;
  StoreDone done;
  while (all.empty() || all.back().found) {
    files_->step();
    while (files_->poll(done)) {
      all.push_back(std::move(done));
      done = StoreDone{};
    }
  }
  return all;
}

// It says nothing about the page.
void RingStore::refuse(const StoreCommand& command) {
  done_.emplace_back();
  done_.back().op = command.op;
  done_.back().token = command.token;
  done_.back().status = command.op == StoreOp::kWrite ? Code::kNotStored : Code::kIoError;
  done_.back().breaker_open = true;
}

void RingStore::take(StoreCommand&& command) {
  if (phase_ != Phase::kUp && command.op != StoreOp::kScan) return refuse(command);
  switch (command.op) {
    case StoreOp::kRead:
    case StoreOp::kWrite:
    case StoreOp::kDelete:
      ring_of(command).waiting.push_back(std::move(command));
      break;
    default:
      calls_.push_back({std::move(command), steps_ + below(kCallStepsMax),
                        chance(faults_.stalls) ? clock_.now_ns() + below(kStallNsMax) : 0});
  }
}

// A ring's submission tail moves in order: beside the oldest I/O that hasn't ended it takes no more
// than its entries, whatever ended since. One that never ends gets its class another ring.
bool RingStore::prepare_waiting(Ring& ring) {
  if (phase_ != Phase::kUp || ring.waiting.empty()) return false;
  uint64_t oldest = ring.next_op;
  for (const Op& op : ring.prepared) oldest = std::min(oldest, op.number);
  for (const Job& job : ring.jobs)
    if (!job.lost || steps_ < job.due_step + kRingStepsMax)
      for (const Op& op : job.ops) oldest = std::min(oldest, op.number);
  bool did = false;
  while (!ring.waiting.empty() && ring.next_op - oldest < plan_.entries) {
    StoreCommand command = std::move(ring.waiting.front());
    ring.waiting.pop_front();
    prepare(ring, std::move(command));
    did = true;
  }
  if (!ring.waiting.empty()) ++counts_.full;
  return did;
}

void RingStore::prepare(Ring& ring, StoreCommand&& command) {
  Op op;
  op.direct = direct_;
  counts_.reads += command.op == StoreOp::kRead;
  counts_.writes += command.op == StoreOp::kWrite;
  if (command.op != StoreOp::kDelete) op.bytes.resize(command.page_bytes);
  if (command.op == StoreOp::kRead) {
    StoreCommand read;
    read.op = StoreOp::kRead;
    read.token = command.token;
    read.location = command.location;
    read.page = op.bytes.data();
    read.page_bytes = command.page_bytes;
    op.done = std::move(perform(std::move(read))[0]);
    if (op.done.status != Code::kOk) return done_.push_back(std::move(op.done));
  }
  op.command = std::move(command);
  op.number = ring.next_op++;
  if (op.command.op == StoreOp::kWrite && !op.direct) move_to(op, op.command.page_bytes);
  if (op.direct && !held_ && below(2) == 0) {
    ++counts_.early;
    move_some(op);
  }
  ring.prepared.push_back(std::move(op));
}

void RingStore::pick_job(Ring& ring) {
  Job job;
  const size_t all = ring.prepared.size();
  const size_t most = plan_.job_max == 0 ? all : std::min<size_t>(plan_.job_max, all);
  const auto end = ring.prepared.begin() + static_cast<ptrdiff_t>(most);
  job.ops.assign(std::make_move_iterator(ring.prepared.begin()), std::make_move_iterator(end));
  ring.prepared.erase(ring.prepared.begin(), end);
  job.number = ring.next_job++;
  job.due_step = steps_ + below(kJobStepsMax);
  if (chance(faults_.stalls)) {
    job.due_ns = clock_.now_ns() + below(below(4) == 0 ? kLongStallNsMax : kStallNsMax);
    ++counts_.stalled;
  }
  job.fails = chance(faults_.fails);
  job.lost = chance(faults_.lost);
  ++counts_.jobs;
  counts_.groups += job.ops.size() > 1;
  counts_.failed += job.fails;
  counts_.lost += job.lost;
  if (job.lost) trace_.event("a job of " + std::to_string(job.ops.size()) + " will never end");
  const bool read = job.ops[0].command.op == StoreOp::kRead;
  ring.jobs.push_back(std::move(job));
  // With the bug planted more often, so that it is found in as few seeds as the others.
  const uint32_t dies = planted(Bug::kMountLossEndsReads) ? 500 : faults_.dies;
  if (read && chance(dies)) die_next_ = true;
}

bool RingStore::turn(Ring& ring) {
  bool did = prepare_waiting(ring);
  if (held_ && phase_ == Phase::kUp) return did;
  const bool up = phase_ == Phase::kUp;
  if (up && !ring.prepared.empty()) {
    did = true;
    while (!ring.prepared.empty() && below(2) == 0) pick_job(ring);
  }
  for (Op& op : ring.prepared)
    if (op.direct && below(4) == 0) move_some(op);
  for (auto job = ring.jobs.begin(); job != ring.jobs.end();) {
    for (Op& op : job->ops)
      if (op.direct && below(2) == 0) move_some(op);
    const bool due = hurry_ || (steps_ >= job->due_step && clock_.now_ns() >= job->due_ns);
    did = did || (up && !job->lost && clock_.now_ns() >= job->due_ns);
    if (!up || job->lost || !due) {
      ++job;
      continue;
    }
    counts_.overtaken += job != ring.jobs.begin();
    end_job(*job);
    job = ring.jobs.erase(job);
  }
  return did;
}

bool RingStore::turn_calls() {
  if (phase_ != Phase::kUp || held_ || calls_.empty()) return false;
  bool did = false;
  for (size_t i = 0; i < calls_.size();) {
    Call& call = calls_[i];
    const bool in_time = hurry_ || clock_.now_ns() >= call.due_ns;
    did = did || in_time;
    if (!in_time || (!hurry_ && steps_ < call.due_step)) {
      ++i;
      continue;
    }
    StoreCommand command = std::move(call.command);
    calls_.erase(calls_.begin() + static_cast<ptrdiff_t>(i));
    for (StoreDone& done : perform(std::move(command))) done_.push_back(std::move(done));
  }
  return did;
}

bool RingStore::step() {
  ++steps_;
  if (std::exchange(die_next_, false)) kill_fuse_daemon();
  bool did = turn_mount();
  if (!direct_ && !denied_ && phase_ == Phase::kUp) direct_ = steps_ >= direct_at_step_;
  while (!commands_.empty()) {
    StoreCommand command = std::move(commands_.front());
    commands_.pop_front();
    take(std::move(command));
    did = true;
  }
  for (Ring& ring : rings_) did = turn(ring) || did;
  did = turn_calls() || did;
  return land_ghosts() || did;
}

}  // namespace kvsidecar::sim
