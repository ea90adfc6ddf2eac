// SPDX-License-Identifier: Apache-2.0
// The fuse daemon's core, behind two front ends (the emulator's C calls, mini3fs' FUSE): tables of
// iovs and rings, scans, job queues by priority, and jobs that wait for their time. Without threads
// of its own: work() is what worker threads call (see worker_threads.h), step() is one step of it
// for tests that run everything in one thread. Any thread (own lock, never held while bytes move).
#pragma once
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "sidecar/env.h"
#include "tests/usrbio/core/buffer_table.h"
#include "tests/usrbio/core/counts.h"
#include "tests/usrbio/core/job_runner.h"
#include "tests/usrbio/core/ring.h"

namespace kvsidecar::fake3fs {

class Server {
 public:
  // All four outlive it. Jobs that still wait when it ends never complete: as with a daemon that
  // was killed.
  Server(Clock& clock, FileTable& files, Faults& faults, Counts& counts);
  ~Server();

  // Registration. 0 or -errno: -EMFILE (iovs.max, rings.max), -EEXIST, -EINVAL (block larger than
  // the memory, depth larger than the ring, too small for a ring), -ENOENT. keep holds the mapping.
  int add_buffer(const Id& id, std::span<std::byte> bytes, uint64_t block_bytes,
                 std::shared_ptr<const void> keep);
  int remove_buffer(const Id& id);
  int add_ring(const Id& id, std::span<std::byte> memory, const RingOptions& options,
               std::shared_ptr<const void> keep);
  int remove_ring(const Id& id);  // jobs it has still complete into its memory

  void submitted(Priority priority);  // somebody posted: scans all rings of the priority
  void idle(Priority priority);       // nobody did for a while: scans only where early.* says so
  void release_stalled();

  bool step();                   // runs or posts one job that is due; false: there is none
  uint64_t next_due_ns() const;  // of the jobs that wait for their time; UINT64_MAX: none
  void work();  // step() until stop(), waiting in between; the clock is the real one
  void stop();  // work() returns; nothing runs any more once they all have

 private:
  struct Waiting {
    Job job;
    bool ran = false;     // its bytes moved, the completion is what waits
    int64_t stalled = 0;  // I/O of it that stalls
  };
  void scan(Priority priority);
  void enqueue(Job job);
  void queue(Waiting waiting);
  bool take(Waiting& next);
  void run(Waiting next);

  Clock& clock_;
  Faults& faults_;
  Counts& counts_;
  BufferTable buffers_;
  JobRunner runner_;
  mutable std::mutex lock_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::map<Id, std::shared_ptr<Ring>> rings_;
  std::deque<Waiting> queues_[kPriorities];
  std::multimap<uint64_t, Waiting> waiting_;  // by when they are due; UINT64_MAX = when released
};

}  // namespace kvsidecar::fake3fs
