// SPDX-License-Identifier: Apache-2.0
// Chunks of the host pool as named files directly under a directory (/dev/shm; 3FS's fuse daemon
// must be able to map them). Blocking: runs on a reaper. Names: kvsidecar.<pool>.<number>. Created
// with O_EXCL, 0600, reserved with fallocate so that they can't SIGBUS later, prefaulted in steps;
// adopted only with O_NOFOLLOW, own uid, 0600, one link and the configured size; leftovers of no
// configured pool are deleted.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ipc/memory_room.h"
#include "ipc/os.h"
#include "sidecar/env.h"

namespace kvsidecar {

struct Chunk {
  std::string path;
  std::span<std::byte> memory;  // mapped shared, read-write
  bool existed = false;         // adopt it, don't format it
};

struct ChunkPlan {
  std::string directory = "/dev/shm";
  std::string pool;  // [a-z0-9-]{1,32}: one per daemon on the node
  uint64_t chunk_bytes = 1ull << 30;
  uint64_t pool_bytes = 0;  // multiple of chunk_bytes; checked against what is free at start
  MemorySources sources;
};

// Bytes that a new pool may take in the directory now (existing chunks of this pool count as free):
// what the file system has and, where it lies in memory, what memory_room.h says of the pages that
// it is made of.
Result<uint64_t> free_bytes(const ChunkPlan& plan);
// kInvalid with the numbers when the plan doesn't fit. `auto` pools: half of free_bytes, in whole
// chunks.
Status check_plan(const ChunkPlan& plan);
// Looked at between two steps; null: never stops.
using StopFlag = const std::atomic<bool>*;
// Chunk number n: opens and adopts, or creates, reserves and prefaults it. kDraining, and nothing
// half made is left, once the flag is set.
Result<Chunk> open_chunk(const ChunkPlan& plan, uint32_t number, FaultPoints& faults,
                         StopFlag stop = nullptr);
void close_chunk(Chunk& chunk);  // unmaps; the file stays

// A chunk is the daemon's that has its file locked. Two daemons with one host_pool.name would write
// into each other's pages, or remove each other's files.
// Takes it until `lock` is closed; kBusy: another daemon has it. No file: no lock, no error.
Status lock_chunk(const std::string& path, UniqueFd& lock);
Status check_unclaimed(const ChunkPlan& plan);  // kBusy when another daemon has any of the pool
// What another daemon has stays, and is an error.
Status remove_leftovers(const ChunkPlan& plan);  // files of this pool beyond the plan
Status remove_pool(const ChunkPlan& plan);       // all files of this pool (tests, doctor)

}  // namespace kvsidecar
