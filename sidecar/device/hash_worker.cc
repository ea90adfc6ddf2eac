// SPDX-License-Identifier: Apache-2.0
#include "sidecar/device/hash_worker.h"

#include "sidecar/digest.h"

namespace kvsidecar {

HashWorker::HashWorker(size_t capacity, Waker* done_waker)
    : commands_(capacity), done_(capacity), done_waker_(done_waker) {}

bool HashWorker::submit(HashCommand&& command) {
  KV_CHECK(command.expected.empty() || command.expected.size() == command.parts.size());
  if (!commands_.try_push(std::move(command))) return false;
  waker().wake();
  return true;
}

bool HashWorker::poll(HashDone& done) {
  if (!done_.try_pop(done)) return false;
  if (!commands_.empty()) waker().wake();  // the worker may sleep for want of room
  return true;
}

bool HashWorker::step() {
  if (done_.room() == 0) return false;
  HashCommand command;
  if (!commands_.try_pop(command)) return false;
  HashDone done;
  done.token = command.token;
  done.digests.reserve(command.parts.size());
  const std::byte* part = command.page;
  for (const PartSpec& spec : command.parts) {
    const uint64_t seed = part_seed(command.hash, spec.coordinate);
    done.digests.push_back(part_digest(Bytes(part, spec.bytes), seed));
    part += spec.bytes;
  }
  if (!command.expected.empty() && done.digests != command.expected) done.status = Code::kCorrupt;
  KV_CHECK(done_.try_push(std::move(done)));
  if (done_waker_ != nullptr) done_waker_->wake();
  return true;
}

bool HashWorker::has_work() { return !commands_.empty() && done_.room() > 0; }

}  // namespace kvsidecar
