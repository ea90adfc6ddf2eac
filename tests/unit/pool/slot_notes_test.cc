// SPDX-License-Identifier: Apache-2.0
// Goal: what the owner keeps beside a slot lives as long as the slot is taken, and what the pool
// keeps of its slots is in proportion to the slots there are, not to their numbers, which are
// sparse. Method: small spans for the life of notes; the daemon's own span size over memory that is
// only reserved, and a count of the bytes that operator new gave out, for the sums.
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/mman.h>

#include <cstdlib>
#include <new>

#include "tests/unit/pool/pool_support.h"

namespace {
int64_t bytes_held = 0;  // by whoever called operator new
}

void* operator new(size_t bytes) {
  void* const at = std::malloc(bytes);
  if (at == nullptr) throw std::bad_alloc();
  bytes_held += static_cast<int64_t>(malloc_usable_size(at));
  return at;
}
void operator delete(void* at) noexcept {
  if (at != nullptr) bytes_held -= static_cast<int64_t>(malloc_usable_size(at));
  std::free(at);
}
void operator delete(void* at, size_t) noexcept { operator delete(at); }

namespace kvsidecar {
namespace {

constexpr uint64_t kPage = 4096;

TEST(SlotNotes, ANoteIsFreshWhenItsSlotIsTakenAgain) {
  TestMemory memory(kTestSpanBytes);
  HostPool pool(1, kTestSpanBytes);
  pool.add_chunk(memory.span());
  const SlotShape shape = slot_shape(kPage, 1, 0);
  const SlotId other = pool.allocate(shape);  // keeps the span
  const SlotId slot = pool.allocate(shape);
  EXPECT_EQ(pool.note(slot).entry, SlotNote{}.entry);
  pool.set_note(slot, {7, 3});
  ASSERT_TRUE(pool.publish(slot, make_record(1, kPage), access_at(1, 1)));
  EXPECT_EQ(pool.note(slot).entry, 7u);
  EXPECT_EQ(pool.note(slot).account, 3u);
  EXPECT_EQ(pool.note(other).entry, SlotNote{}.entry);
  pool.release(slot);
  EXPECT_EQ(pool.note(slot).entry, SlotNote{}.entry);
  EXPECT_DEATH(pool.set_note(slot, {1, 1}), "check failed") << "a free slot has no note";
  ASSERT_EQ(pool.allocate(shape), slot);
  EXPECT_EQ(pool.note(slot).entry, SlotNote{}.entry);
  EXPECT_EQ(pool.note(slot).account, 0u);
}

TEST(SlotNotes, EverySlotIsPassedOnceInAscendingOrder) {
  TestMemory memory(12 * kTestSpanBytes);
  HostPool pool(1, kTestSpanBytes);
  EXPECT_EQ(pool.next_slot(0), kNoSlot);
  EXPECT_EQ(pool.slots_end(), 0u);
  pool.add_chunk(memory.span());
  EXPECT_EQ(pool.next_slot(0), kNoSlot) << "empty spans have no slots";
  std::set<SlotId> taken;
  for (const uint64_t bytes : {kPage, 3 * kPage, 100'000ul, kPage})
    for (int i = 0; i < 3; ++i) {
      const SlotId slot = pool.allocate(slot_shape(bytes, 1, 0));
      if (slot != kNoSlot) taken.insert(slot);
    }
  ASSERT_GE(taken.size(), 9u);
  const auto passed = [&] {
    std::set<SlotId> seen;
    for (SlotId slot = pool.next_slot(0); slot != kNoSlot; slot = pool.next_slot(slot + 1)) {
      EXPECT_TRUE(seen.empty() || slot > *seen.rbegin());
      EXPECT_LT(slot, pool.slots_end());
      EXPECT_NE(pool.bytes(slot), nullptr);
      seen.insert(slot);
    }
    return seen;
  };
  const HostPool::Usage usage = pool.usage();
  const std::set<SlotId> seen = passed();
  EXPECT_EQ(seen.size(), usage.slots_free + usage.slots_filling);
  for (const SlotId slot : taken) {
    EXPECT_EQ(seen.count(slot), 1u) << slot;
    pool.release(slot);
  }
  EXPECT_TRUE(passed().empty());
  for (const SlotId from : {SlotId{1}, pool.slots_end(), kNoSlot - 1})
    EXPECT_EQ(pool.next_slot(from), kNoSlot) << from;
}

TEST(SlotNotes, ThePoolsOwnMemoryIsInProportionToItsSlotsWhateverTheirSize) {
  constexpr uint64_t kSpans = 16;
  void* const at = mmap(nullptr, kSpans * kSpanBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(at, MAP_FAILED);
  const std::span<std::byte> memory(static_cast<std::byte*>(at), kSpans * kSpanBytes);
  for (const uint64_t page_bytes : {256ul << 10, 2ul << 20, 30ul << 20}) {
    const int64_t before = bytes_held;
    HostPool pool(1, kSpanBytes);
    pool.add_chunk(memory);
    const SlotShape shape = slot_shape(page_bytes, 1, 0);
    int64_t slots = 0;
    int64_t first = 0;  // what the first slot costs: the shape's eviction
    for (SlotId slot; (slot = pool.allocate(shape)) != kNoSlot;) {
      pool.set_note(slot, {1, 1});
      if (++slots == 1) first = bytes_held - before;
    }
    ASSERT_GT(slots, static_cast<int64_t>(kSpans * kSpanBytes / page_bytes * 3 / 4));
    const int64_t grown = bytes_held - before - first;
    // A slot, its share of its run, and the eviction's blocks of a thousand slots, rounded up.
    EXPECT_LE(grown, slots * 128 + 64 * 1024) << page_bytes;
    RecordProperty("bytes_of_" + std::to_string(slots), std::to_string(grown));
  }
  munmap(at, kSpans * kSpanBytes);
}

}  // namespace
}  // namespace kvsidecar
