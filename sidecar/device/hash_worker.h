// SPDX-License-Identifier: Apache-2.0
// A hash worker: checks or computes the digests of whole pages that lie in the host pool. Used for
// pages read from the store, for adopted slots at their first get, and where the device doesn't
// hash while it copies.
#pragma once
#include <vector>

#include "sidecar/env.h"
#include "sidecar/namespace_info.h"
#include "sidecar/queue.h"
#include "sidecar/worker.h"

namespace kvsidecar {

struct HashCommand {
  uint64_t token = 0;
  const std::byte* page = nullptr;  // stays pinned until HashDone
  std::vector<PartSpec> parts;      // in order; sum of bytes = page bytes
  Hash128 hash;                     // page hash, for the seeds
  std::vector<uint64_t> expected;   // part digests to compare with; empty = compute only
};
struct HashDone {
  uint64_t token = 0;
  Code status = Code::kOk;        // kOk or kCorrupt
  std::vector<uint64_t> digests;  // as computed
};

class HashWorker final : public Worker {
 public:
  HashWorker(size_t capacity, Waker* done_waker);
  bool submit(HashCommand&& command);  // conductor; false when full (command untouched)
  bool poll(HashDone& done);
  bool has_done() const { return !done_.empty(); }
  bool step() override;
  bool has_work() override;

 private:
  Queue<HashCommand> commands_;
  Queue<HashDone> done_;
  Waker* done_waker_;
};

}  // namespace kvsidecar
