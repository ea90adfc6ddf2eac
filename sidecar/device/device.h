// SPDX-License-Identifier: Apache-2.0
// A device: engine memory that the daemon can copy from and to. Implementations: host (memfd),
// later cuda. All obey the same rules, in CUDA's harshest reading: handles name whole allocations,
// with an offset; pieces of one batch run in any order; nothing is used after close; an exporter's
// death keeps its memory until close; any operation may fail, late or for good.
//
// Threads: takes is the conductor's; import, echo, close block and run on a reaper. A CopyQueue
// belongs to one copy worker.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "ipc/os.h"
#include "ipc/result.h"

namespace kvsidecar {

enum class MemoryKind : uint8_t { kHostFd = 0 };

// What a client sent to name its memory.
struct MemoryHandle {
  MemoryKind kind = MemoryKind::kHostFd;
  UniqueFd fd;
  uint64_t bytes = 0;   // of the region
  uint64_t offset = 0;  // where the region begins in the allocation
};

// One imported allocation. Owned by a session; handed to the reaper for close() once nothing uses
// it.
class Region {
 public:
  virtual ~Region() = default;
  uint64_t bytes() const { return bytes_; }

 protected:
  explicit Region(uint64_t bytes) : bytes_(bytes) {}

 private:
  const uint64_t bytes_;
};

enum class Direction : uint8_t { kStore, kLoad };  // engine -> host pool, host pool -> engine

// A contiguous piece of engine memory and its place in host memory. Ranges were checked by the
// conductor.
struct Piece {
  std::byte* host;
  Region* region;
  uint64_t offset, bytes;
};

class CopyQueue {
 public:
  virtual ~CopyQueue() = default;
  // Starts a batch; returns its ticket. With `leaves` (kStore only, see Device::hashes) the pieces
  // are of one part, in part order, host side contiguous, beginning at a leaf boundary of the part;
  // the device fills in the digest of each 64 KiB leaf. The spans must stay valid until the ticket
  // is reported. A batch that failed may have copied anything.
  virtual uint64_t submit(Direction, std::span<const Piece> pieces, std::span<uint64_t> leaves) = 0;
  struct Done {
    uint64_t ticket;
    Code status;
  };  // kOk, kMemoryFault, kInternal
  virtual size_t poll(std::span<Done> out) = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const char* name() const = 0;
  // False: import() would refuse such an fd, and might not come back from it. Never waits.
  virtual bool takes(int fd) const = 0;
  virtual Result<std::unique_ptr<Region>> import(MemoryHandle handle) = 0;
  // Reads 8 bytes at offset; when they are `expected` writes `answer` there, else kStaleMapping.
  virtual Status echo(Region& region, uint64_t offset, uint64_t expected, uint64_t answer) = 0;
  virtual void close(std::unique_ptr<Region> region) = 0;
  virtual std::unique_ptr<CopyQueue> make_queue() = 0;
  virtual bool hashes() const = 0;  // fills in `leaves` while it copies
};

}  // namespace kvsidecar
