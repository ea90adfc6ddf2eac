// SPDX-License-Identifier: Apache-2.0
// The inside of a FileStore; the store worker's thread, but for the queues and the counters.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "sidecar/queue.h"
#include "sidecar/store/file_store.h"
#include "sidecar/store/node_folder.h"
#include "sidecar/store/segment_file.h"
#include "sidecar/store/segment_scan.h"
#include "sidecar/store/segment_writer.h"
#include "sidecar/store/tombstones.h"

namespace kvsidecar {

struct FileStore::State {
  State(const FileStoreOptions& options, Clock& clock, FaultPoints& faults, StoreLog log,
        NodeFolder folder);
  ~State();

  // What the pieces share comes first: it is destroyed last.
  const FileStoreOptions options;
  Clock& clock;
  FaultPoints& faults;
  NodeFolder folder;
  StoreCounters counters;
  StoreParts parts;
  BouncePool bounce;
  std::unique_ptr<IoQueue> io;
  std::unique_ptr<SegmentFiles> files;
  std::unique_ptr<Tombstones> tombstones;
  Breaker breaker;
  UniqueFd probe_file;

  Queue<StoreCommand> commands;
  Queue<StoreDone> done;
  Queue<std::span<std::byte>> registrations;
  std::deque<StoreDone> backlog;  // found segments and completions that `done` had no room for
  std::atomic<bool> backlogged{false};
  uint64_t outstanding = 0;  // conductor's: submitted and not yet polled

  using WriterKey = std::pair<Hash128, uint64_t>;  // namespace and generation
  std::map<WriterKey, std::unique_ptr<SegmentWriter>> writers;
  std::deque<StoreCommand> loads, prefetches, stores;
  size_t reads_active = 0, writes_active = 0;
  uint64_t write_number = 0;
  std::map<uint64_t, bool> unreported_writes;  // numbers of those that were started
  struct Flush {
    uint64_t token, upto;
    size_t syncs_left = 0;
    bool syncing = false, failed = false;
  };
  std::vector<std::shared_ptr<Flush>> flushes;
  std::vector<std::unique_ptr<SegmentScan>> scans;
  bool closing = false, reported = false, memory_refused = false, trip_due = false;
  enum class Probe : uint8_t { kClosed, kOpening, kOpen, kFailed } probe_state = Probe::kClosed;

  Status open_ring(int event_fd);
  void probe_direct();
  void open_probe();
  bool take_commands();
  bool run_stores(uint64_t now_ns);
  bool admit();
  bool admit_reads(std::deque<StoreCommand>& queue, size_t active_max);
  void read(StoreCommand&& command);
  void write(StoreCommand&& command);
  void erase(const StoreCommand& command);
  void unlink(const StoreCommand& command);
  void flush(const StoreCommand& command);
  void scan(const StoreCommand& command);
  SegmentWriter& writer(const StoreCommand& command);
  void turn_flushes();
  bool turn_breaker(uint64_t now_ns);
  void tripped();
  void probe();
  void probe_ended(int error);
  void io_ended(bool write, int error);
  void report(StoreDone&& result);
  void drain_backlog();
  void register_waiting();
  bool turn();
  void wind_up();
  bool quiet() const;        // nothing in flight, nothing waits
  bool close(Waker& waker);  // false: something never ended and still owns what it works on
};

}  // namespace kvsidecar
