// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/core/ring.h"

#include "tests/usrbio/core/counts.h"

namespace kvsidecar::fake3fs {

Ring::Ring(const Id& id, const RingOptions& options, const RingMemory& memory, Counts& counts,
           std::shared_ptr<const void> keep)
    : id_(id), options_(options), keep_(std::move(keep)), counts_(counts), memory_(memory) {
  memory_.start();
}

void Ring::refuse(const std::string& why) {
  if (broken_.empty()) counts_.add("refused");
  broken_ = why;
}

std::vector<Job> Ring::pick(Faults& faults) {
  std::lock_guard guard(lock_);
  std::vector<Job> jobs;
  if (!broken_.empty()) return jobs;
  const auto head = memory_.sqe_head();
  const auto completions = memory_.completions_waiting();
  if (!head || !completions) {
    refuse("an index of the client's is outside the ring");
    return jobs;
  }
  if (memory_.distance(tail_, *head) < memory_.distance(tail_, taken_)) {
    refuse("the submission head went backwards");
    return jobs;
  }
  const uint32_t used = processing_ + *completions;
  const PickRule rule{.io_depth = options_.io_depth, .timeout_ms = options_.timeout_ms};
  for (const uint32_t size :
       job_sizes(rule, memory_.distance(taken_, *head), used < entries() ? entries() - used : 0))
    if (!take(size, faults, jobs)) break;
  return jobs;
}

bool Ring::take(uint32_t count, Faults& faults, std::vector<Job>& jobs) {
  Job job{.ring = shared_from_this(), .first = taken_, .ios = {}};
  job.ios.reserve(count);
  uint32_t place = taken_;
  for (uint32_t i = 0; i < count; ++i, place = memory_.next(place)) {
    const auto submission = memory_.submission(place);
    if (!submission) {
      refuse("a submission names a slot outside the ring");
      return false;
    }
    job.ios.push_back({.submission = *submission, .fault = faults.on_io(options_.for_read)});
  }
  taken_ = place;
  processing_ += count;
  counts_.add("taken", count);
  jobs.push_back(std::move(job));
  return true;
}

void Ring::finish(const Job& job) {
  std::lock_guard guard(lock_);
  const auto count = static_cast<uint32_t>(job.ios.size());
  advance_tail(job.first, count);
  processing_ -= count;
  bool any = false;
  for (const JobIo& io : job.ios) {
    if (!broken_.empty() || io.fault.lost) continue;
    if (memory_.append(io.submission.slot, io.result, io.submission.user))
      any = true;
    else
      refuse("a completion has no place: an index of the client's is wrong");
  }
  if (any) memory_.post();
}

void Ring::advance_tail(uint32_t first, uint32_t count) {
  parked_[first] = count;
  for (auto next = parked_.find(tail_); next != parked_.end(); next = parked_.find(tail_)) {
    tail_ = (tail_ + next->second) % memory_.places();
    parked_.erase(next);
  }
  memory_.set_sqe_tail(tail_);
}

std::string Ring::broken() const {
  std::lock_guard guard(lock_);
  return broken_;
}

}  // namespace kvsidecar::fake3fs
