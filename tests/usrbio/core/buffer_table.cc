// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/core/buffer_table.h"

#include <cerrno>

namespace kvsidecar::fake3fs {

int BufferTable::add(const Id& id, Buffer buffer, uint64_t buffers_max) {
  std::lock_guard guard(lock_);
  if (buffers_.contains(id)) return -EEXIST;
  if (buffers_.size() >= buffers_max) return -EMFILE;
  buffers_.emplace(id, std::make_shared<const Buffer>(std::move(buffer)));
  return 0;
}

int BufferTable::remove(const Id& id) {
  std::lock_guard guard(lock_);
  return buffers_.erase(id) == 1 ? 0 : -ENOENT;
}

std::shared_ptr<const Buffer> BufferTable::find(const Id& id) const {
  std::lock_guard guard(lock_);
  const auto found = buffers_.find(id);
  return found == buffers_.end() ? nullptr : found->second;
}

size_t BufferTable::size() const {
  std::lock_guard guard(lock_);
  return buffers_.size();
}

}  // namespace kvsidecar::fake3fs
