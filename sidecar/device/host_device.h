// SPDX-License-Identifier: Apache-2.0
// The host device: engine memory is a file in memory (memfd, /dev/shm). It copies with the CPU and
// hashes what it stores while it is hot. It keeps CUDA's rules where they are hardest: pieces of a
// batch go in shuffled order, a batch has touched nothing before poll(), a failed batch may have
// copied anything, an errno of ENODEV from a fault point is sticky (every later call fails), a
// region that is used after close or closed while a batch uses it aborts the daemon: our own bug.
//
// Imports check the file first (see import): memory that isn't there already would be charged to
// the daemon. A file that can still shrink is taken; every access runs under the SIGBUS guard.
//
// Fault points: device.import, device.echo, device.copy (one call per batch).
#pragma once
#include <atomic>

#include "sidecar/device/device.h"
#include "sidecar/env.h"

namespace kvsidecar {

class HostDevice final : public Device {
 public:
  // `shuffle_seed` decides the order inside batches.
  explicit HostDevice(uint64_t shuffle_seed, FaultPoints& faults = no_faults());
  ~HostDevice() override;

  const char* name() const override { return "host"; }
  // Files in memory only: a page fault of another waits for its file system, which may be a process
  // or another machine.
  bool takes(int fd) const override { return is_memory_file(fd); }
  // kInvalid (a sentence: field, value, remedy) when the handle isn't a file of that size with all
  // its blocks allocated, or can't be mapped. Each import is a mapping of its own.
  Result<std::unique_ptr<Region>> import(MemoryHandle handle) override;
  Status echo(Region& region, uint64_t offset, uint64_t expected, uint64_t answer) override;
  void close(std::unique_ptr<Region> region) override;
  std::unique_ptr<CopyQueue> make_queue() override;
  bool hashes() const override { return true; }

 private:
  friend class HostQueue;
  // The errno that the fault point asks for, kept for ever when it is ENODEV; else 0.
  int fault(std::string_view point);

  static constexpr size_t kClosedKept = 256;
  FaultPoints& faults_;
  std::atomic<uint64_t> next_seed_;
  std::atomic<int> lost_{0};
  // The shells of the last regions closed stay readable, marked closed, so that a use is caught.
  std::atomic<Region*> closed_[kClosedKept]{};
  std::atomic<uint64_t> closed_count_{0};
};

}  // namespace kvsidecar
