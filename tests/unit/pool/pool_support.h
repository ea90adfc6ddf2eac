// SPDX-License-Identifier: Apache-2.0
// Memory, records and sums for the host pool's tests.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <vector>

#include "sidecar/pool/host_pool.h"

namespace kvsidecar {

inline constexpr uint64_t kTestSpanBytes = 64 * 1024;

// Page-aligned memory that starts out dirty.
class TestMemory {
 public:
  explicit TestMemory(uint64_t bytes) : buffer_(bytes + 4096, std::byte{0xa5}), bytes_(bytes) {}
  std::span<std::byte> span() {
    const auto at = reinterpret_cast<uintptr_t>(buffer_.data());
    return std::span(buffer_).subspan((4096 - at % 4096) % 4096, bytes_);
  }

 private:
  std::vector<std::byte> buffer_;
  uint64_t bytes_;
};

inline PageRecord make_record(uint64_t number, uint64_t page_bytes, size_t description_bytes = 0) {
  PageRecord record;
  record.hash = {number, ~number};
  record.namespace_id = {11, 22};
  record.generation = 1;
  record.page_bytes = page_bytes;
  record.digest = number * 31;
  record.part_digests = {number * 7};
  record.key.resize(32, static_cast<std::byte>(number));
  record.description.resize(description_bytes, std::byte{0x5c});
  return record;
}

inline PageAccess access_at(uint64_t page, uint64_t request) {
  return {.page = page, .position = 0, .prompt_pages = 0, .request = request};
}

inline void fill_page(HostPool& pool, SlotId slot, uint64_t number, uint64_t page_bytes) {
  std::byte* const at = pool.bytes(slot);
  for (uint64_t i = 0; i + 8 <= page_bytes; i += 8) std::memcpy(at + i, &number, 8);
}

inline bool holds_page(HostPool& pool, SlotId slot, uint64_t number, uint64_t page_bytes) {
  const std::byte* const at = pool.bytes(slot);
  for (uint64_t i = 0; i + 8 <= page_bytes; i += 8)
    if (std::memcmp(at + i, &number, 8) != 0) return false;
  return true;
}

// A complete page in a new slot; kNoSlot when there is none.
inline SlotId put_page(HostPool& pool, const SlotShape& shape, uint64_t number, uint64_t page_bytes,
                       uint64_t request = 1) {
  const SlotId slot = pool.allocate(shape);
  if (slot == kNoSlot) return slot;
  fill_page(pool, slot, number, page_bytes);
  EXPECT_TRUE(pool.publish(slot, make_record(number, page_bytes), access_at(number, request)));
  return slot;
}

// Every byte of the pool has exactly one account. held: bytes of FILLING and quarantined slots.
inline void expect_sums(const HostPool& pool, uint64_t span_bytes, uint64_t held_bytes) {
  const HostPool::Usage u = pool.usage();
  EXPECT_EQ(u.bytes, u.spans * span_bytes);
  EXPECT_EQ(u.bytes, u.spans_empty * span_bytes + u.table_bytes + u.page_bytes + u.rounding_bytes +
                         u.stranded_bytes + held_bytes);
}

}  // namespace kvsidecar
