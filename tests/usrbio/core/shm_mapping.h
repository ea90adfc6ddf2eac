// SPDX-License-Identifier: Apache-2.0
// A file of /dev/shm that a client named, mapped as the fuse daemon maps it. Any thread.
#pragma once
#include <memory>
#include <span>
#include <string>

#include "ipc/os.h"

namespace kvsidecar::fake3fs {

struct ShmMapping {
  MappedMemory memory;
  std::span<std::byte> bytes() const { return {memory.data(), memory.size()}; }
};

// path: "/dev/shm/NAME". 0, or -EINVAL: elsewhere, or no regular file; -EACCES: it can't be mapped.
int map_shm(const std::string& path, std::shared_ptr<ShmMapping>& mapping);

}  // namespace kvsidecar::fake3fs
