// SPDX-License-Identifier: Apache-2.0
#include "sidecar/shell/chunk_opener.h"

#include <memory>

#include "sidecar/shell/log.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kRetryNs = 1'000'000'000;
constexpr uint64_t kBusyRetryNs = 200'000'000;  // a predecessor that is ending lets go soon

struct ChunkJob {
  Result<Chunk> chunk = Status(Code::kInternal, "not opened");
  UniqueFd lock;
};

}  // namespace

ChunkOpener::ChunkOpener(const ChunkPlan& plan, Reaper& reaper, Clock& clock, FaultPoints& faults,
                         Ready ready)
    : plan_(plan),
      reaper_(reaper),
      clock_(clock),
      faults_(faults),
      ready_(std::move(ready)),
      planned_(static_cast<uint32_t>(plan.pool_bytes / plan.chunk_bytes)),
      stop_(std::make_shared<std::atomic<bool>>(false)) {}

void ChunkOpener::stop() { stop_->store(true, std::memory_order_relaxed); }

bool ChunkOpener::step() {
  bool busy = false;
  std::unique_ptr<Errand> errand;
  while (reaper_.poll(errand)) {
    errand->finish();
    busy = true;
  }
  if (!away_ && !done() && !*stop_ && clock_.now_ns() >= next_try_ns_) start_next();
  return busy;
}

void ChunkOpener::start_next() {
  auto job = std::make_shared<ChunkJob>();
  auto run = [job, plan = plan_, number = opened_, faults = &faults_, stop = stop_] {
    job->chunk = open_chunk(plan, number, *faults, stop.get());
    if (!job->chunk) return;
    if (Status status = lock_chunk(job->chunk->path, job->lock); !status.ok()) {
      close_chunk(*job->chunk);
      job->chunk = status;
    }
  };
  auto finish = [this, job] { arrived(std::move(job->chunk), std::move(job->lock)); };
  away_ = reaper_.submit(make_errand(std::move(run), std::move(finish)));
}

void ChunkOpener::arrived(Result<Chunk> chunk, UniqueFd lock) {
  away_ = false;
  if (chunk.status().code() == Code::kDraining) return;
  if (!chunk) {
    const bool busy = chunk.status().code() == Code::kBusy;
    next_try_ns_ = clock_.now_ns() + (busy ? kBusyRetryNs : kRetryNs);
    if (chunk.status().text() != failure_)
      log_event(LogLevel::kError, "chunk_failed",
                {{"number", opened_}, {"text", chunk.status().text()}});
    failure_ = chunk.status().text();
    return;
  }
  ++opened_;
  failure_.clear();
  locks_.push_back(std::move(lock));
  ready_(*chunk);
  log_event(LogLevel::kInfo, "chunk_ready",
            {{"path", chunk->path},
             {"bytes", chunk->memory.size()},
             {"adopted", chunk->existed ? "yes" : "no"},
             {"chunks", opened_},
             {"planned", planned_}});
}

}  // namespace kvsidecar
