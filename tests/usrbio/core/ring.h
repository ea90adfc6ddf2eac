// SPDX-License-Identifier: Apache-2.0
// One registered ring: which submissions are in which job, and how their completions go back. The
// submission tail moves in order only: a job that ends before an older one is parked, so one slow
// I/O keeps the ring full. Any thread (own lock).
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "tests/usrbio/core/faults.h"
#include "tests/usrbio/core/job_sizes.h"
#include "tests/usrbio/core/ring_memory.h"

namespace kvsidecar::fake3fs {

enum class Priority : uint8_t { kHigh, kNormal, kLow };
inline constexpr size_t kPriorities = 3;

struct RingOptions {
  bool for_read = true;
  int32_t io_depth = 0;
  Priority priority = Priority::kNormal;
  uint32_t timeout_ms = 0;
  uint64_t flags = 0;
};
inline constexpr uint64_t kFlagForbidHoles = 2;

class Counts;
class Ring;

struct JobIo {
  RingMemory::Submission submission;
  IoFault fault;
  int64_t result = 0;
};

// Consecutive submissions that are run, and complete, together.
struct Job {
  std::shared_ptr<Ring> ring;
  uint32_t first = 0;  // place of the first submission
  std::vector<JobIo> ios;
};

class Ring : public std::enable_shared_from_this<Ring> {
 public:
  // keep: what holds the mapping; jobs that outlive the registration still write there.
  Ring(const Id& id, const RingOptions& options, const RingMemory& memory, Counts& counts,
       std::shared_ptr<const void> keep);

  const Id& id() const { return id_; }
  const RingOptions& options() const { return options_; }
  uint32_t entries() const { return memory_.entries(); }

  // One scan: the jobs that can be taken now, in order. Asks `faults` once for each I/O.
  std::vector<Job> pick(Faults& faults);
  // Posts the completions of a job (but lost ones) together, with one post of the semaphore.
  void finish(const Job& job);
  // Why nothing is taken from this ring any more: the client wrote what no client may. Empty: fine.
  std::string broken() const;

 private:
  bool take(uint32_t count, Faults& faults, std::vector<Job>& jobs);
  void advance_tail(uint32_t first, uint32_t count);
  void refuse(const std::string& why);

  const Id id_;
  const RingOptions options_;
  const std::shared_ptr<const void> keep_;
  Counts& counts_;
  mutable std::mutex lock_;
  RingMemory memory_;
  uint32_t taken_ = 0;                   // place of the next submission that no job has
  uint32_t tail_ = 0;                    // place of the oldest submission that isn't finished
  uint32_t processing_ = 0;              // submissions in jobs whose completions aren't posted
  std::map<uint32_t, uint32_t> parked_;  // finished before older ones: place -> count
  std::string broken_;
};

}  // namespace kvsidecar::fake3fs
