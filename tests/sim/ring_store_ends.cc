// SPDX-License-Identifier: Apache-2.0
// How I/O moves its bytes and ends, and how a mount goes and comes back.
#include <algorithm>
#include <cstring>

#include "tests/sim/planted_bugs.h"
#include "tests/sim/ring_store.h"

namespace kvsidecar::sim {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kDirectStepsMax = 16;  // until the host pool has proven itself
constexpr uint64_t kGraceNs = 50 * kMs, kDownNsMax = 500 * kMs;
constexpr uint64_t kCalmNs = 20'000 * kMs;  // a stall takes no longer than that any more
constexpr uint64_t kReturnStepsMax = 12;

}  // namespace

void RingStore::move_to(Op& op, uint64_t end) {
  if (end <= op.moved) return;
  std::byte* const page = op.command.page + op.moved;
  std::byte* const file = op.bytes.data() + op.moved;
  if (op.command.op == StoreOp::kRead)
    std::memcpy(page, file, end - op.moved);
  else
    std::memcpy(file, page, end - op.moved);
  op.moved = end;
}

void RingStore::move_some(Op& op) {
  if (op.command.page == nullptr) return;
  move_to(op, std::min(op.command.page_bytes, op.moved + 1 + below(op.command.page_bytes)));
}

void RingStore::end_job(Job& job) {
  for (Op& op : job.ops) {
    op.done.op = op.command.op;
    op.done.token = op.command.token;
    if (op.command.op == StoreOp::kRead)
      end_read(op, job.fails);
    else if (op.command.op == StoreOp::kWrite)
      end_write(op, job.fails);
    else
      end_delete(op, job.fails);
    done_.push_back(std::move(op.done));
  }
}

void RingStore::end_read(Op& op, bool fails) {
  const uint64_t bytes = op.command.page_bytes;
  const bool cut = !fails && chance(faults_.cut);
  const bool tail = !fails && !cut && chance(faults_.tail_not_read) && op.moved < bytes;
  counts_.cut += cut;
  counts_.tails += tail;
  uint64_t end = bytes;
  if (fails || cut) end = below(bytes);
  if (tail) end = op.moved + below(bytes - op.moved);
  move_to(op, end);
  if (!fails && !cut) return;
  op.done.status = Code::kIoError;
  op.done.record.reset();
}

// A write that failed may have reached the files all the same, and its directory entry too.
void RingStore::end_write(Op& op, bool fails) {
  op.done.status = Code::kNotStored;
  counts_.no_space += full_;
  if (full_ || (fails && below(4) != 0)) return;
  move_to(op, op.command.page_bytes);
  StoreCommand write;
  write.op = StoreOp::kWrite;
  write.token = op.command.token;
  write.durable = true;  // as all that 3FS calls done
  write.space = op.command.space;
  write.record = op.command.record;
  write.page = op.bytes.data();
  write.page_bytes = op.command.page_bytes;
  StoreDone done = std::move(perform(std::move(write))[0]);
  if (!fails) op.done = std::move(done);
}

void RingStore::end_delete(Op& op, bool fails) {
  op.done.status = Code::kIoError;
  if (fails && below(4) != 0) return;
  StoreDone done = std::move(perform(std::move(op.command))[0]);
  if (!fails) op.done = std::move(done);
}

void RingStore::begin_mount() {
  files_.reset();
  files_ = std::make_unique<MemoryStore>(
      disk_, MemoryStore::Options{1024, options_.segment_bytes, nullptr}, random_);
  direct_ = false;
  denied_ = chance(faults_.denied);
  counts_.denied += denied_;
  direct_at_step_ = steps_ + below(kDirectStepsMax);
}

void RingStore::kill_fuse_daemon() {
  if (phase_ == Phase::kDown) return;
  trace_.event("the fuse daemon dies");
  ++counts_.mounts_lost;
  phase_ = Phase::kDown;
  held_ = false;
  gone_at_ns_ = clock_.now_ns() + kGraceNs;
  back_at_ns_ = gone_at_ns_ + below(kDownNsMax);
  for (Ring& ring : rings_) {
    for (const StoreCommand& command : ring.waiting) refuse(command);
    ring.waiting.clear();
  }
  for (size_t i = 0; i < calls_.size();) {
    if (calls_[i].command.op == StoreOp::kScan) {
      ++i;
      continue;
    }
    refuse(calls_[i].command);
    calls_.erase(calls_.begin() + static_cast<ptrdiff_t>(i));
  }
  if (planted(Bug::kMountLossEndsReads)) end_with_mount();
}

void RingStore::end_with_mount() {
  for_ops([&](Op& op) {
    ++counts_.ended_with_mount;
    refuse(op.command);
    if (planted(Bug::kMountLossEndsReads) && op.direct && op.command.op == StoreOp::kRead)
      ghosts_.push_back(std::move(op));
  });
  for (Ring& ring : rings_) {
    ring.prepared.clear();
    ring.jobs.clear();
  }
  gone_at_ns_ = 0;
}

// What lands after its end was reported.
bool RingStore::land_ghosts() {
  std::erase_if(ghosts_, [this](Op& op) {
    if (below(32) != 0) return false;
    move_to(op, op.command.page_bytes);
    return true;
  });
  return !ghosts_.empty();
}

bool RingStore::turn_mount() {
  if (phase_ == Phase::kUp) return false;
  const uint64_t now_ns = clock_.now_ns();
  if (phase_ == Phase::kDown) {
    bool did = false;
    if (gone_at_ns_ != 0 && (hurry_ || now_ns >= gone_at_ns_)) {
      end_with_mount();
      did = true;
    }
    if (gone_at_ns_ != 0 || (!hurry_ && now_ns < back_at_ns_)) return did;
    if (chance(faults_.vanishes) && disk_->vanish(random_) > 0) {
      ++counts_.vanished;
      trace_.event("segments have vanished");
    }
    begin_mount();
    phase_ = Phase::kReturning;
    up_at_step_ = steps_ + below(kReturnStepsMax);
    return true;
  }
  if (!hurry_ && steps_ < up_at_step_) return true;
  phase_ = Phase::kUp;
  ++counts_.mounts_back;
  trace_.event("a mount is back");
  return true;
}

bool RingStore::holds_lost() const {
  return std::any_of(rings_.begin(), rings_.end(), [](const Ring& ring) {
    return std::any_of(ring.jobs.begin(), ring.jobs.end(), [](const Job& job) { return job.lost; });
  });
}

void RingStore::calm() {
  set_faults(false, false);
  faults_ = {};
  die_next_ = false;
  const uint64_t until_ns = clock_.now_ns() + kCalmNs;
  for (Ring& ring : rings_)
    for (Job& job : ring.jobs) job.due_ns = std::min(job.due_ns, until_ns);
}

void RingStore::end_all() {
  calm();
  hurry_ = true;
  if (holds_lost()) kill_fuse_daemon();
}

}  // namespace kvsidecar::sim
