// SPDX-License-Identifier: Apache-2.0
// A store in memory that behaves as one on USRBIO does, seen by the conductor. Pages go in jobs
// over three rings (demand, prefetch, write): an I/O may run as soon as it is prepared, moves its
// bytes whenever it likes until its job ends, and a job ends as a whole, in no order. A job may
// end when its requests are long overdue, or never.
//
// When the fuse daemon dies, what is in flight may go on to move bytes for a grace time and then
// ends; meanwhile, and until a new mount was read, reads are kIoError with breaker_open and writes
// kNotStored. Opening, unlinking and reading directories go beside the rings and wait for a mount.
//
// It looks after the rule of the interface itself: memory of two operations that overlaps is a
// violation, unless both are writes.
#pragma once
#include <array>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "sidecar/store/memory_store.h"
#include "tests/sim/ring_plan.h"
#include "tests/sim/trace.h"

namespace kvsidecar::sim {

class RingStore final : public Store {
 public:
  RingStore(std::shared_ptr<MemoryDisk> disk, const MemoryStore::Options& options,
            const RingPlan& plan, Clock& clock, Random& random, Trace& trace);

  bool submit(StoreCommand&& command) override;
  bool poll(StoreDone& done) override;
  bool has_done() const override { return !done_.empty(); }
  std::string describe() const override { return "like usrbio"; }
  uint64_t used_bytes() const override { return files_->used_bytes(); }
  bool step() override;
  bool has_work() override { return must_poll(); }
  bool must_poll() override;

  // held: the fuse daemon hangs. full: ENOSPC.
  void set_faults(bool held, bool full) {
    held_ = held;
    full_ = full;
  }
  void kill_fuse_daemon();
  // Nothing goes wrong from now on; only what is lost stays lost.
  void calm();
  // Everything that is in flight or waits ends with the next steps, whatever the clock says.
  void end_all();
  bool holds_lost() const;  // operations that will never end by themselves
  const RingCounts& counts() const { return counts_; }

 private:
  enum class Phase : uint8_t { kUp, kDown, kReturning };
  // From prepare to completion.
  struct Op {
    StoreCommand command;
    std::vector<std::byte> bytes;  // read: what the file has; write: what was taken of the page
    StoreDone done;                // read: its record
    uint64_t moved = 0;            // bytes
    uint64_t number = 0;           // within its ring
    bool direct = false;           // the fuse daemon moves to and from the page itself
  };
  struct Job {
    std::vector<Op> ops;
    uint64_t number = 0, due_step = 0, due_ns = 0;
    bool lost = false, fails = false;
  };
  struct Ring {
    std::deque<StoreCommand> waiting;
    std::vector<Op> prepared;
    std::list<Job> jobs;
    uint64_t next_op = 0, next_job = 0;
  };
  // What goes by a system call.
  struct Call {
    StoreCommand command;
    uint64_t due_step = 0, due_ns = 0;
  };

  bool chance(uint32_t per_mille) { return per_mille > 0 && random_.next() % 1000 < per_mille; }
  uint64_t below(uint64_t n) { return random_.next() % n; }
  Ring& ring_of(const StoreCommand& command);

  // ring_store.cc
  void take(StoreCommand&& command);
  bool prepare_waiting(Ring& ring);
  void prepare(Ring& ring, StoreCommand&& command);
  void pick_job(Ring& ring);
  bool turn(Ring& ring);
  bool turn_calls();
  std::vector<StoreDone> perform(StoreCommand&& command);
  void refuse(const StoreCommand& command);
  void check_memory(const StoreCommand& command);
  void for_ops(const std::function<void(Op&)>& visit);

  // ring_store_ends.cc
  void move_some(Op& op);
  void move_to(Op& op, uint64_t end);
  void end_job(Job& job);
  void end_read(Op& op, bool fails);
  void end_write(Op& op, bool fails);
  void end_delete(Op& op, bool fails);
  void begin_mount();
  bool turn_mount();
  void end_with_mount();
  bool land_ghosts();

  const std::shared_ptr<MemoryDisk> disk_;
  const MemoryStore::Options options_;
  const RingPlan plan_;
  Clock& clock_;
  Random& random_;
  Trace& trace_;
  std::unique_ptr<MemoryStore> files_;
  RingFaults faults_;
  bool held_ = false, full_ = false, hurry_ = false, die_next_ = false;
  uint64_t steps_ = 0, outstanding_ = 0;

  std::deque<StoreCommand> commands_;
  std::deque<StoreDone> done_;
  std::array<Ring, 3> rings_;
  std::deque<Call> calls_;

  Phase phase_ = Phase::kUp;
  bool direct_ = false, denied_ = false;
  uint64_t direct_at_step_ = 0;
  uint64_t gone_at_ns_ = 0;  // down: nothing of the dead fuse daemon lands any more; 0 = so already
  uint64_t back_at_ns_ = 0, up_at_step_ = 0;
  std::vector<Op> ghosts_;  // of a planted bug: reported as ended, and still moving
  RingCounts counts_;
};

}  // namespace kvsidecar::sim
