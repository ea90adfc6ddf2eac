// SPDX-License-Identifier: Apache-2.0
#include "sidecar/store/bounce_pool.h"

#include <cstdlib>

#include "ipc/result.h"

namespace kvsidecar {
namespace {

constexpr size_t kAlignment = 4096;
struct SizeClass {
  size_t bytes, count;
};
// Trailers and directory blocks; packed pages with their trailer; groups of packed pages.
constexpr SizeClass kClasses[] = {{8 << 10, 64}, {128 << 10, 16}, {1 << 20, 3}};

std::byte* aligned(size_t bytes) {
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, bytes));
  KV_CHECK(memory != nullptr);
  return memory;
}

}  // namespace

uint64_t BouncePool::bytes_needed() {
  uint64_t bytes = 0;
  for (const SizeClass& c : kClasses) bytes += c.bytes * c.count;
  return bytes;
}

BouncePool::BouncePool(std::span<std::byte> memory)
    : own_(memory.empty()), memory_bytes_(bytes_needed()) {
  KV_CHECK(own_ || memory.size() >= memory_bytes_);
  memory_ = own_ ? aligned(memory_bytes_) : memory.data();
  std::byte* at = memory_;
  for (const SizeClass& c : kClasses) {
    auto& list = free_.emplace_back();
    for (size_t i = 0; i < c.count; ++i, at += c.bytes) list.push_back(at);
  }
}

BouncePool::~BouncePool() {
  if (own_) std::free(memory_);
}

BouncePool::Buffer BouncePool::take(uint64_t bytes) {
  for (size_t c = 0; c < free_.size(); ++c) {
    if (bytes > kClasses[c].bytes || free_[c].empty()) continue;
    std::byte* buffer = free_[c].back();
    free_[c].pop_back();
    return Buffer(buffer, Return{this, static_cast<int>(c)});
  }
  const size_t rounded = (static_cast<size_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment;
  return Buffer(aligned(rounded), Return{this, -1});
}

void BouncePool::Return::operator()(std::byte* buffer) const {
  if (size_class < 0)
    std::free(buffer);
  else
    pool->free_[static_cast<size_t>(size_class)].push_back(buffer);
}

}  // namespace kvsidecar
