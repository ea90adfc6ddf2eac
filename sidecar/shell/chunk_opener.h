// SPDX-License-Identifier: Apache-2.0
// Brings the host pool's chunks in, one after the other, in the background: each is opened,
// reserved and prefaulted on a reaper of its own and handed to the conductor when it is ready. A
// chunk that can't be had now is tried again later. Conductor's thread.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "sidecar/env.h"
#include "sidecar/errand.h"
#include "sidecar/pool/chunk_files.h"

namespace kvsidecar {

class ChunkOpener {
 public:
  using Ready = std::function<void(const Chunk& chunk)>;
  // All outlive the opener; `reaper` is turned elsewhere and polled here only.
  ChunkOpener(const ChunkPlan& plan, Reaper& reaper, Clock& clock, FaultPoints& faults,
              Ready ready);
  // Takes what is ready and starts the next. True when it did something.
  bool step();
  // Starts no other chunk and gives up the one under way; idle() soon after.
  void stop();
  uint32_t opened() const { return opened_; }
  uint32_t planned() const { return planned_; }
  bool done() const { return opened_ == planned_; }
  bool idle() const { return !away_; }  // nothing is on the reaper

 private:
  void start_next();
  void arrived(Result<Chunk> chunk, UniqueFd lock);

  const ChunkPlan plan_;
  Reaper& reaper_;
  Clock& clock_;
  FaultPoints& faults_;
  const Ready ready_;
  const uint32_t planned_;
  uint32_t opened_ = 0;
  bool away_ = false;
  uint64_t next_try_ns_ = 0;
  std::string failure_;  // the last one's text: said once, tried again and again
  const std::shared_ptr<std::atomic<bool>> stop_;  // read on the reaper too
  std::vector<UniqueFd> locks_;  // held for life: no second daemon uses the same files
};

}  // namespace kvsidecar
