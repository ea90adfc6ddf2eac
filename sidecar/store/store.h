// SPDX-License-Identifier: Apache-2.0
// The store: where pages go behind the host pool. Implementations: MemoryStore (tests, simulator),
// FileStore (segment files), UsrbioStore (on 3FS). One worker turns step(); the conductor submits
// and polls. A store never blocks the conductor, never reorders the completion of one command into
// another, and reports each command exactly once, however late. Buffers belong to the store from
// submit to done.
//
// A page's location is (segment, slot). Locations are never reused: a deleted or unlinked page's
// location reads as kMiss. The store chooses the location at a write; which segment goes is the
// conductor's choice (it knows what is hot): SegmentTable keeps the CLOCK.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sidecar/namespace_info.h"
#include "sidecar/page_record.h"
#include "sidecar/worker.h"

namespace kvsidecar {

struct StoreLocation {
  uint64_t segment = 0;  // epoch << 32 | sequence: unique on this node for ever; 0 = none
  uint32_t slot = 0;
  bool operator==(const StoreLocation&) const = default;
};

enum class StoreOp : uint8_t {
  kWrite,   // page + record -> location. durable: done only after data, directory entry and
            // fdatasync
  kRead,    // location -> page bytes and record; kMiss, kIoError, kCorrupt (record) or kOk. The
            // caller checks digests
  kDelete,  // appends a tombstone for the location
  kUnlink,  // unlinks a whole segment
  kScan,    // reads all directories: kFound completions, one or more a segment, then one kScan
            // completion
  kFlush,   // done when everything written before is durable
};

struct StoreCommand {
  StoreOp op = StoreOp::kWrite;
  uint64_t token = 0;
  StoreLocation location;
  bool durable = false;
  bool prefetch = false;                     // kRead: nobody waits for it yet
  const NamespaceInfo* space = nullptr;      // kWrite: whose open segment takes it
  std::shared_ptr<const PageRecord> record;  // kWrite
  std::byte* page = nullptr;                 // kWrite: source; kRead: destination. 4 KiB aligned
  uint64_t page_bytes = 0;  // kRead: expected; capacity of `page` is this rounded up to 4 KiB
};

struct FoundPage {
  Hash128 hash;
  uint64_t digest = 0, page_bytes = 0;
  uint32_t slot = 0;
  bool imported = false;
};
struct FoundSegment {
  uint64_t segment = 0, bytes = 0;  // bytes: what unlinking it gives back
  std::vector<std::byte> encoded;   // the namespace's canonical form
  uint64_t generation = 0;
  bool current = false;          // made since the store was opened: it may be written to
  std::vector<FoundPage> pages;  // tombstoned pages are left out
};

struct StoreDone {
  StoreOp op = StoreOp::kWrite;
  bool found = false;  // kScan: this one carries `segment`, more follow
  uint64_t token = 0;
  Code status = Code::kOk;             // kWrite: kOk, kNotStored (ENOSPC, EIO)
  bool breaker_open = false;           // kRead, kIoError: which then says nothing about the page
  StoreLocation location;              // kWrite
  uint64_t slot_bytes = 0;             // kWrite: space it takes in its segment
  std::unique_ptr<PageRecord> record;  // kRead, kOk
  std::unique_ptr<FoundSegment> segment;
};

// What a command is told that wasn't begun, since the device is out of reach: nothing of the page.
inline StoreDone refused(const StoreCommand& command) {
  return {.op = command.op,
          .token = command.token,
          .status = command.op == StoreOp::kWrite ? Code::kNotStored : Code::kIoError,
          .breaker_open = true};
}

class Store : public Worker {
 public:
  // Conductor. False when the queue is full: nothing was taken.
  virtual bool submit(StoreCommand&& command) = 0;
  virtual bool poll(StoreDone& done) = 0;
  // poll() would find something; the conductor's second look before it sleeps.
  virtual bool has_done() const = 0;
  // Any thread: name for logs and status, e.g. "file (O_DIRECT)"; bytes of all segments.
  virtual std::string describe() const = 0;
  virtual uint64_t used_bytes() const = 0;
  // Any thread: free space that it needs below the capacity so as to go on; unlinking gives it.
  virtual uint64_t wanted_bytes() const { return 0; }
};

}  // namespace kvsidecar
