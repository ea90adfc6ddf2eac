// SPDX-License-Identifier: Apache-2.0
// What goes wrong: the device's fault points, and a store that remembers which host memory its
// reads may still write to when the daemon is killed.
#pragma once
#include <deque>
#include <functional>
#include <map>

#include "sidecar/store/memory_store.h"
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

// MemoryStore, whose completions come in any order, harmed as `ReadHarm` says.
class WatchedStore final : public Store {
 public:
  WatchedStore(std::shared_ptr<MemoryDisk> disk, const MemoryStore::Options& options,
               Random& random)
      : store_(std::move(disk), options, random), random_(random) {}

  bool submit(StoreCommand&& command) override;
  bool poll(StoreDone& done) override;
  bool has_done() const override { return !done_.empty() || store_.has_done(); }
  std::string describe() const override { return store_.describe(); }
  uint64_t used_bytes() const override { return store_.used_bytes(); }
  bool step() override;
  bool has_work() override { return store_.has_work(); }
  bool must_poll() override { return store_.must_poll(); }

  void set_faults(const MemoryFaults& faults, const ReadHarm& harm) {
    store_.set_faults(faults);
    harm_ = harm;
  }
  std::vector<LateWrite> reads_in_flight() const;

 private:
  bool fail_early(const StoreCommand& command);
  void take_done();
  void harm(StoreDone& done);

  MemoryStore store_;
  Random& random_;
  std::map<uint64_t, LateWrite> reads_;
  ReadHarm harm_;
  std::deque<StoreDone> done_;            // not fetched yet
  std::vector<LateWrite> still_writing_;  // of reads that were reported as failed
};

}  // namespace kvsidecar::sim
