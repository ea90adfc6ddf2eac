// SPDX-License-Identifier: Apache-2.0
// The inside of a UsrbioStore; the store worker's thread, but for the queues, the counters and what
// is marked otherwise.
#pragma once
#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "sidecar/queue.h"
#include "sidecar/store/usrbio/counter_sums.h"
#include "sidecar/store/usrbio/usrbio_store.h"

namespace kvsidecar {

struct UsrbioStore::State {
  State(const UsrbioStoreOptions& options, Clock& clock, FaultPoints& faults, StoreLog log,
        Waker& waker);

  enum class Phase : uint8_t { kUp, kDown, kReturning };
  struct Region {
    std::string path;
    std::span<std::byte> memory;
  };
  // Memory that was registered and has to prove itself before pages go there.
  struct Proving {
    std::shared_ptr<std::unique_ptr<usrbio::Memory>> memory;
    Region region;
    uint64_t life = 0;
  };
  struct Life {
    std::unique_ptr<Mounted> mounted;
    uint64_t number = 0;
    uint64_t lost_ns = 0;
    bool dead = false;  // its mount's death was proven: what is in flight ends soon
  };

  UsrbioStoreOptions options;
  Clock& clock;
  FaultPoints& faults;
  StoreLog log;
  Waker& waker;
  UsrbioCounters usrbio;
  StoreCounters counters;  // of all lives
  CounterSums earlier;     // of those that are over
  MountThread thread;
  std::string folder;
  std::atomic<std::shared_ptr<const std::string>> described;

  const size_t capacity;  // commands that are not done yet
  Waker* const done_waker;
  Queue<StoreCommand> commands;
  Queue<StoreDone> done;
  Queue<Region> new_regions;
  std::deque<StoreDone> backlog;       // what `done` had no room for
  std::atomic<bool> more_done{false};  // more is there than it had room for
  uint64_t outstanding = 0;            // conductor's

  Phase phase = Phase::kDown;
  Life life;
  uint64_t lives = 0;
  std::vector<Life> winding;  // lost ones whose last I/O has not ended
  std::vector<Region> regions;
  std::deque<Proving> proving;

  // A scan that the conductor asked for, and what it was told already: a mount that goes in the
  // middle makes it begin again.
  std::optional<uint64_t> scan_token;
  std::unordered_set<uint64_t> scan_told;
  bool scanning = false, scan_again = false;

  bool opening = false;
  uint64_t reopen_at_ns = 0, backoff_ns = 0;
  Status open_failure;
  std::optional<uint64_t> beat_since_ns;  // a heartbeat is away
  uint64_t next_beat_ns = 0, next_left_beat_ns = 0;
  bool hung = false, breaker_was_open = false;
  uint32_t rings_asked = 0;
  std::optional<TransferClass> ring_away;
  uint64_t ring_again_ns = 0;
  bool closing = false;

  // usrbio_store.cc
  bool turn();
  void drain_backlog();
  bool take_commands();
  bool take_done(FileStore& files, bool lost);
  void scan_done(StoreDone&& result);
  void answer(StoreDone&& result);
  void start_scan();
  void describe(const std::string& state);
  uint64_t wait_ns() const;
  bool has_work();

  // usrbio_lives.cc
  void start_open();
  void opened(Result<std::unique_ptr<Mounted>> result);
  void lose(const std::string& reason);
  void leave(bool dead);
  bool turn_winding();
  void beat_left(uint64_t now_ns);
  void close_life(std::unique_ptr<Mounted> mounted);
  bool watch(uint64_t now_ns);
  void beat(uint64_t now_ns);
  void beaten(uint64_t number, bool alive);
  void watch_rings(uint64_t now_ns);
  bool close();  // false: something still works on memory

  // usrbio_regions.cc
  bool take_regions();
  void register_region(const Region& region);
  void prove_waiting();
  void proven(const Proving& memory, int64_t result);
  void discard(std::shared_ptr<std::unique_ptr<usrbio::Memory>> memory);
};

}  // namespace kvsidecar
