// SPDX-License-Identifier: Apache-2.0
// Memory in a file of its own under /dev/shm, for buffers that the fuse daemon maps too: the
// store's bounce pool and staging. Name: kvsidecar.<pool>.bounce-<number>, mode 0600; locked while
// it lives, so that a sweep tells what is left over from what is in use. Blocking.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "ipc/os.h"

namespace kvsidecar {

class SharedBlock {
 public:
  // Reserves the bytes at once. The error names the file, the numbers and the remedy.
  static Result<std::unique_ptr<SharedBlock>> create(const std::string& directory,
                                                     const std::string& pool, uint32_t number,
                                                     uint64_t bytes);
  ~SharedBlock();  // unmaps it and removes the file
  SharedBlock(const SharedBlock&) = delete;
  SharedBlock& operator=(const SharedBlock&) = delete;
  const std::string& path() const { return path_; }
  std::span<std::byte> bytes() const { return memory_; }

 private:
  SharedBlock() = default;
  std::string path_;
  UniqueFd fd_;
  std::span<std::byte> memory_;
};

// Removes the blocks of that pool that a dead daemon has left.
void sweep_shared_blocks(const std::string& directory, const std::string& pool);

}  // namespace kvsidecar
