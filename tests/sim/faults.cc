// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/faults.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tests/sim/planted_bugs.h"

namespace kvsidecar::sim {

int SimFaults::fail(std::string_view point) {
  uint32_t chance = 0;
  if (point == "device.copy") {
    chance = chances.copy;
    if (in_copy) in_copy();
  } else if (point == "device.import") {
    chance = chances.import;
  } else if (point == "device.echo") {
    chance = chances.echo;
  }
  return random_.below(1000) < chance ? EIO : 0;
}

#if defined(__clang__) || defined(__GNUC__)
__attribute__((no_sanitize("address")))
#endif
void scribble(const LateWrite& write, Random& random) {
  volatile std::byte* const page = write.page;
  for (uint64_t i = 0; i < write.bytes; i += 64) page[i] = static_cast<std::byte>(random.next());
}

// What a store does that takes a wait that timed out for an operation that ended.
bool WatchedStore::fail_early(const StoreCommand& command) {
  if (!planted(Bug::kSlotReusedInFlight) || command.op != StoreOp::kRead || random_.next() % 4 != 0)
    return false;
  StoreDone done;
  done.op = command.op;
  done.token = command.token;
  done.status = Code::kIoError;
  done_.push_back(std::move(done));
  still_writing_.push_back({command.page, command.page_bytes});
  return true;
}

bool WatchedStore::step() {
  std::erase_if(still_writing_, [this](const LateWrite& write) {
    if (random_.next() % 16 != 0) return false;
    scribble(write, random_);
    return true;
  });
  return store_->step();
}

void WatchedStore::set_faults(const MemoryFaults& faults, const ReadHarm& harm) {
  harm_ = harm;
  if (memory_ != nullptr) memory_->set_faults(faults);
  if (ring_ != nullptr) ring_->set_faults(faults.held, faults.full);
}

void WatchedStore::calm() {
  set_faults({}, {});
  if (ring_ != nullptr) ring_->calm();
}

void WatchedStore::end_all() {
  calm();
  if (ring_ != nullptr) ring_->end_all();
}

bool WatchedStore::submit(StoreCommand&& command) {
  if (fail_early(command)) return true;
  const uint64_t token = command.token;
  const bool read = command.op == StoreOp::kRead;
  const LateWrite write{command.page, command.page_bytes};
  if (!store_->submit(std::move(command))) return false;
  if (read) reads_[token] = write;
  return true;
}

void WatchedStore::harm(StoreDone& done) {
  if (done.op != StoreOp::kRead || done.status != Code::kOk) return;
  const auto chance = [this](uint32_t per_mille) {
    return per_mille > 0 && random_.next() % 1000 < per_mille;
  };
  const LateWrite& page = reads_.at(done.token);
  if (chance(harm_.cut_short))
    std::memset(page.page + page.bytes / 2, 0, page.bytes - page.bytes / 2);
  if (!chance(harm_.swapped)) return;
  for (StoreDone& other : done_) {
    const auto found = reads_.find(other.token);
    if (found == reads_.end() || other.record == nullptr || found->second.bytes != page.bytes)
      continue;
    std::swap_ranges(page.page, page.page + page.bytes, found->second.page);
    return std::swap(done.record, other.record);
  }
}

void WatchedStore::take_done() {
  StoreDone done;
  while (store_->poll(done)) {
    harm(done);
    done_.push_back(std::move(done));
    done = StoreDone{};
  }
}

// A scan's completions keep their order.
bool WatchedStore::poll(StoreDone& done) {
  take_done();
  if (done_.empty()) return false;
  auto chosen = done_.begin() + static_cast<ptrdiff_t>(random_.next() % done_.size());
  if (chosen->op == StoreOp::kScan)
    chosen = std::find_if(done_.begin(), done_.end(),
                          [](const StoreDone& other) { return other.op == StoreOp::kScan; });
  done = std::move(*chosen);
  done_.erase(chosen);
  if (!done.found) reads_.erase(done.token);
  unavailable_reads_ += done.op == StoreOp::kRead && done.breaker_open;
  if (planted(Bug::kDoneTwice) && done.op == StoreOp::kRead && random_.next() % 8 == 0) {
    done_.emplace_back();
    done_.back().op = StoreOp::kRead;
    done_.back().token = done.token;
    done_.back().status = Code::kIoError;
  }
  return true;
}

std::vector<LateWrite> WatchedStore::reads_in_flight() const {
  std::vector<LateWrite> writes;
  for (const auto& [token, write] : reads_) writes.push_back(write);
  return writes;
}

}  // namespace kvsidecar::sim
