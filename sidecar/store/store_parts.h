// SPDX-License-Identifier: Apache-2.0
// What the pieces of a FileStore share. Owned by FileStore; the store worker's thread.
#pragma once
#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "ipc/identity.h"
#include "sidecar/env.h"
#include "sidecar/store/bounce_pool.h"
#include "sidecar/store/file_door.h"
#include "sidecar/store/io_queue.h"
#include "sidecar/store/store_log.h"

namespace kvsidecar {

class SegmentFiles;

// Counters for metrics; written by the store worker, read by any thread.
struct StoreCounters {
  std::atomic<uint64_t> used_bytes{0}, segments{0};
  std::atomic<uint64_t> wanted_bytes{0};  // of segments that wait for room
  std::atomic<uint64_t> bytes_written{0}, bytes_read{0};
  std::atomic<uint64_t> write_errors{0}, read_errors{0}, no_space{0};
  std::atomic<uint64_t> foreign_files{0}, bad_superblocks{0}, torn_entries{0}, cut_pages{0};
  std::atomic<uint64_t> breaker_trips{0};
  std::atomic<bool> breaker_open{false}, direct{false}, registered{false}, uring{false};
};

// Kept free for tombstones: pages don't take it, and who makes room has to leave it.
inline uint64_t kept_for_tombstones(uint64_t capacity_bytes) {
  return std::min(uint64_t{1} << 20, capacity_bytes / 16);
}

struct StoreParts {
  Clock& clock;
  StoreLog log;
  Hash128 node;
  std::string folder;
  int folder_fd = -1;
  uint32_t epoch = 0;
  uint64_t segment_bytes = 0, stripe_bytes = 0;
  uint64_t capacity_bytes = 0;  // 0: no limit
  // 3FS: a file's length lags behind its bytes, what was written is durable when it is done, and
  // space can't be taken in advance.
  bool late_lengths = false;
  FileDoor* door = nullptr;  // null: files need none
  IoQueue* io = nullptr;
  BouncePool* bounce = nullptr;
  SegmentFiles* files = nullptr;
  StoreCounters* counters = nullptr;
  // An I/O of a page ended: feeds the breaker and the error counters.
  std::function<void(bool write, int error)> io_ended;
  uint32_t next_sequence = 1;

  // run(), which may block where there is a door, then finish(): at once where there is none.
  void run_slowly(std::function<void()> run, std::function<void()> finish) const {
    if (door != nullptr) return door->run(std::move(run), std::move(finish));
    run();
    finish();
  }
  // Whether all files together may take that much more.
  bool has_room(uint64_t bytes, bool for_tombstones) const {
    const uint64_t kept = for_tombstones ? 0 : kept_for_tombstones(capacity_bytes);
    return capacity_bytes == 0 ||
           counters->used_bytes.load(std::memory_order_relaxed) + bytes + kept <= capacity_bytes;
  }
};

}  // namespace kvsidecar
