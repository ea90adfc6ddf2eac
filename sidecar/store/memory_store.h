// SPDX-License-Identifier: Apache-2.0
// A store in memory with the semantics of the others and faults on demand: late, failed, short and
// corrupt completions, in any order, and pages that a crash forgets unless they were durable. For
// the simulator and for tests. Seeded: the same seed and the same steps give the same run.
#pragma once
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "sidecar/env.h"
#include "sidecar/queue.h"
#include "sidecar/store/store.h"

namespace kvsidecar {

// What outlives a MemoryStore, as files outlive a daemon. One store at a time.
class MemoryDisk {
 public:
  // The daemon was killed together with the machine: of what was not durable, each page or
  // tombstone is lost with a chance of one half.
  void crash(Random& random);
  // Segments vanish with a chance of one half each, as files that somebody else removed. How many.
  // Between two stores.
  size_t vanish(Random& random);
  // Flips a byte of every stored page.
  void rot();
  uint64_t pages() const;

 private:
  friend class MemoryStore;
  struct Page {
    std::vector<std::byte> bytes;
    PageRecord record;
    bool durable = false, deleted = false, delete_durable = false;
  };
  struct Segment {
    std::vector<std::byte> encoded;
    uint64_t generation = 0, bytes = 0;
    std::map<uint32_t, Page> pages;
    uint32_t next_slot = 0;
  };
  std::map<uint64_t, Segment> segments_;
  uint32_t epoch_ = 0;
};

// Chances in a thousand, drawn per command.
struct MemoryFaults {
  uint32_t late = 0;  // done after up to late_steps_max further steps; overtakes others
  uint32_t late_steps_max = 16;
  uint32_t write_fails = 0;   // kNotStored
  uint32_t read_fails = 0;    // kIoError, the page's memory partly written
  uint32_t read_corrupt = 0;  // kOk with a wrong byte
  uint32_t delete_fails = 0;  // kIoError
  bool full = false;          // every write is kNotStored
  bool held = false;          // nothing completes
};

class MemoryStore final : public Store {
 public:
  struct Options {
    size_t queue_capacity = 1024;
    uint64_t segment_bytes = 64ull << 20;
    Waker* done_waker = nullptr;
  };
  MemoryStore(std::shared_ptr<MemoryDisk> disk, const Options& options, Random& random);
  ~MemoryStore() override;  // what was not done is dropped, as by a crash of the process

  bool submit(StoreCommand&& command) override;
  bool poll(StoreDone& done) override;
  bool has_done() const override { return !done_.empty(); }
  std::string describe() const override { return "memory"; }
  uint64_t used_bytes() const override { return used_bytes_.load(std::memory_order_relaxed); }
  bool step() override;
  bool has_work() override;
  bool must_poll() override;

  void set_faults(const MemoryFaults& faults) { faults_ = faults; }  // who steps it
  size_t in_flight() const { return waiting_.size(); }

 private:
  struct Waiting {
    uint64_t due_step = 0;
    StoreCommand command;
  };
  bool chance(uint32_t per_mille);
  void perform(StoreCommand& command);
  void write(const StoreCommand& command, StoreDone& done);
  void read(const StoreCommand& command, StoreDone& done);
  void erase(const StoreCommand& command, StoreDone& done);
  void scan(const StoreCommand& command);
  void flush();
  MemoryDisk::Page* find(const StoreLocation& location);
  void report(StoreDone&& done);

  const std::shared_ptr<MemoryDisk> disk_;
  const Options options_;
  Random& random_;
  MemoryFaults faults_;
  uint32_t epoch_, next_sequence_ = 1;
  std::map<std::pair<Hash128, uint64_t>, uint64_t> open_;  // namespace, generation -> segment
  Queue<StoreCommand> commands_;
  Queue<StoreDone> done_;
  std::deque<StoreDone> backlog_;
  std::vector<Waiting> waiting_;
  uint64_t steps_ = 0, outstanding_ = 0;
  std::atomic<uint64_t> used_bytes_{0};
};

}  // namespace kvsidecar
