// SPDX-License-Identifier: Apache-2.0
// The registered iovs, found by id only: whoever knows an id may use it. Any thread (own lock).
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "tests/usrbio/core/ring_layout.h"

namespace kvsidecar::fake3fs {

struct Buffer {
  std::span<std::byte> bytes;
  uint64_t block_bytes = 0;          // 0: all of it is one block
  bool unpinned = false;             // its memory region couldn't be made
  std::shared_ptr<const void> keep;  // the mapping
};

class BufferTable {
 public:
  int add(const Id& id, Buffer buffer, uint64_t buffers_max);  // 0, -EMFILE, -EEXIST
  int remove(const Id& id);                                    // 0, -ENOENT
  std::shared_ptr<const Buffer> find(const Id& id) const;
  size_t size() const;

 private:
  mutable std::mutex lock_;
  std::map<Id, std::shared_ptr<const Buffer>> buffers_;
};

}  // namespace kvsidecar::fake3fs
