// SPDX-License-Identifier: Apache-2.0
// Goal: space that no page needs comes back, and the bytes of the store's files, not those of the
// pages that are known, decide what must go. Method: a store in memory with small segments; daemons
// one after the other.
#include "tests/unit/conductor/rig.h"

namespace kvsidecar::testing {
namespace {

constexpr uint64_t kSweepNs = 100'000'000;

class StoreCapacity : public Rig {
 protected:
  StoreCapacity() {
    store_options.segment_bytes = 4 * (kPage + 4096);
    options.pool_bytes = 4 << 20;
  }
  void put_all(Engine& a, uint64_t first, uint64_t last) {
    for (uint64_t key = first; key <= last; ++key) ASSERT_EQ(put(a, key), Code::kOk);
    ASSERT_TRUE(node->settle());
  }
  void sweep() {
    clock.advance_ns(kSweepNs);
    ASSERT_TRUE(node->settle());
  }
};

TEST_F(StoreCapacity, AFoundSegmentOfWhichNoPageIsWantedIsUnlinked) {
  start();
  auto a = engine();
  put_all(*a, 1, 3);
  a.reset();
  stop();
  lose_memory();
  start(false);  // what is stored isn't known, and is stored again
  a = engine();
  put_all(*a, 1, 3);
  a.reset();
  const uint64_t twice = spy->used_bytes();
  stop();
  lose_memory();
  start();
  EXPECT_EQ(count(&Counters::pages_scanned), 3u);
  EXPECT_EQ(spy->used_bytes() * 2, twice);
  EXPECT_EQ(disk->pages(), 3u);
  a = engine();
  for (uint64_t key = 1; key <= 3; ++key) EXPECT_EQ(get(*a, key), Code::kOk);
}

TEST_F(StoreCapacity, ASegmentWhosePagesAreAllDeletedIsUnlinkedWithoutAnyNeedOfSpace) {
  start();
  auto a = engine();
  put_all(*a, 1, 6);  // a segment of four, and one that is still written to
  const uint64_t before = spy->used_bytes();
  for (uint64_t key = 1; key <= 4; ++key) ASSERT_EQ(erase(*a, key), Code::kOk);
  sweep();
  EXPECT_EQ(count(&Counters::segments_unlinked), 1u);
  EXPECT_LT(spy->used_bytes(), before);
  for (uint64_t key = 5; key <= 6; ++key) ASSERT_EQ(erase(*a, key), Code::kOk);
  sweep();
  EXPECT_EQ(count(&Counters::segments_unlinked), 1u) << "the next page goes to that one";
  put_all(*a, 7, 7);
  EXPECT_EQ(place(*a, 7), Place::kHost);
}

TEST_F(StoreCapacity, AfterARestartWithALowerCapacityWhatIsTooMuchGoes) {
  start();
  auto a = engine();
  put_all(*a, 1, 20);
  a.reset();
  stop();
  options.limits.store_capacity_bytes = 2 * store_options.segment_bytes;
  lose_memory();
  start();
  ASSERT_TRUE(node->settle());
  EXPECT_LE(spy->used_bytes(), options.limits.store_capacity_bytes);
  // O9-04: what is told is what is there.
  const Gauges gauges = node->conductor().gauges();
  EXPECT_EQ(gauges.store_bytes, spy->used_bytes());
  EXPECT_EQ(gauges.store_capacity_bytes, options.limits.store_capacity_bytes);
  EXPECT_EQ(gauges.pages_indexed, disk->pages());
}

// Whatever a segment holds that isn't known counts too: here pages that were deleted.
TEST_F(StoreCapacity, DeletedPagesCountUntilTheirSegmentGoes) {
  options.limits.store_capacity_bytes = 3 * store_options.segment_bytes;
  start();
  auto a = engine();
  for (uint64_t round = 0; round < 10; ++round) {
    put_all(*a, round * 4 + 1, round * 4 + 4);
    for (uint64_t key = round * 4 + 2; key <= round * 4 + 4; ++key)
      ASSERT_EQ(erase(*a, key), Code::kOk);
    sweep();
    EXPECT_LE(spy->used_bytes(), options.limits.store_capacity_bytes + store_options.segment_bytes);
  }
  EXPECT_GT(count(&Counters::segments_unlinked), 0u);
}

}  // namespace
}  // namespace kvsidecar::testing
