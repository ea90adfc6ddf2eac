// SPDX-License-Identifier: Apache-2.0
// What goes wrong: the device's fault points, and a store that remembers which host memory its
// reads may still write to when the daemon is killed. What the store is like is the seed's:
// MemoryStore, or RingStore, which behaves as one on 3FS.
#pragma once
#include <deque>
#include <functional>
#include <map>

#include "sidecar/store/memory_store.h"
#include "tests/sim/ring_store.h"
#include "tests/support/fakes.h"

namespace kvsidecar::sim {

// Chances in a thousand.
struct DeviceFaults {
  uint32_t copy = 0, import = 0, echo = 0;
};

class SimFaults final : public FaultPoints {
 public:
  explicit SimFaults(testing::SeededRandom& random) : random_(random) {}
  int fail(std::string_view point) override;

  DeviceFaults chances;
  // Called in the middle of every copy, between the claim and the first byte.
  std::function<void()> in_copy;

 private:
  testing::SeededRandom& random_;
};

// Of reads that the store calls good, in a thousand.
struct ReadHarm {
  uint32_t cut_short = 0;  // the end of the page was not read
  uint32_t swapped = 0;    // bytes and record of another page that was read just then
};

// Host memory that I/O of a dead daemon may still write to.
struct LateWrite {
  std::byte* page = nullptr;
  uint64_t bytes = 0;
};

// As I/O does of which the daemon knows nothing any more: anywhere, also where ASAN forbids it.
void scribble(const LateWrite& write, Random& random);

// A store whose completions come in any order, harmed as `ReadHarm` says.
class WatchedStore final : public Store {
 public:
  WatchedStore(std::unique_ptr<MemoryStore> store, Random& random)
      : memory_(store.get()), store_(std::move(store)), random_(random) {}
  WatchedStore(std::unique_ptr<RingStore> store, Random& random)
      : ring_(store.get()), store_(std::move(store)), random_(random) {}

  bool submit(StoreCommand&& command) override;
  bool poll(StoreDone& done) override;
  bool has_done() const override { return !done_.empty() || store_->has_done(); }
  std::string describe() const override { return store_->describe(); }
  uint64_t used_bytes() const override { return store_->used_bytes(); }
  bool step() override;
  bool has_work() override { return store_->has_work(); }
  bool must_poll() override { return store_->must_poll(); }

  void set_faults(const MemoryFaults& faults, const ReadHarm& harm);
  void calm();     // nothing fails any more; what is lost stays lost
  void end_all();  // that too ends, with the next steps
  bool holds_lost() const { return ring_ != nullptr && ring_->holds_lost(); }
  std::vector<LateWrite> reads_in_flight() const;
  // Reads that ended without a word about their page, of those that were fetched.
  uint64_t unavailable_reads() const { return unavailable_reads_; }
  RingStore* ring() { return ring_; }  // null: it is no such store

 private:
  bool fail_early(const StoreCommand& command);
  void take_done();
  void harm(StoreDone& done);

  MemoryStore* memory_ = nullptr;
  RingStore* ring_ = nullptr;
  std::unique_ptr<Store> store_;
  Random& random_;
  std::map<uint64_t, LateWrite> reads_;
  ReadHarm harm_;
  std::deque<StoreDone> done_;            // not fetched yet
  std::vector<LateWrite> still_writing_;  // of reads that were reported as failed
  uint64_t unavailable_reads_ = 0;
};

}  // namespace kvsidecar::sim
