// SPDX-License-Identifier: Apache-2.0
// What the copy benchmark measures on: engine memory in a memfd that the host device has imported,
// host memory like the pool's, and a block layout between them. The same copies go through a
// CopyWorker and through plain memcpy. One thread.
#pragma once
#include <vector>

#include "sidecar/device/copy_worker.h"
#include "sidecar/device/host_device.h"

namespace kvsidecar {

class CopyRig {
 public:
  // `pages` pages of `page_bytes`, each of page_bytes / run_bytes runs that lie `pages` * run_bytes
  // apart, as an engine's layers do.
  CopyRig(uint32_t pages, uint64_t page_bytes, uint64_t run_bytes);
  ~CopyRig();

  uint64_t bytes() const { return pages_ * page_bytes_; }
  void copy_by_worker(CopyKind kind);
  void copy_by_memcpy(Direction direction);
  bool sides_agree() const;        // every page equals its runs
  void scribble(std::byte value);  // over the host side

 private:
  const uint32_t pages_;
  const uint64_t page_bytes_, run_bytes_;
  UniqueFd engine_fd_, host_fd_;
  MappedMemory engine_, host_;
  HostDevice device_;
  std::unique_ptr<Region> region_;
  BlockLayout layout_;
  std::vector<CopyItem> items_;
  CopyWorker worker_;
};

}  // namespace kvsidecar
