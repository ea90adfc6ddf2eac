// SPDX-License-Identifier: Apache-2.0
// Goal: pages go to the store behind the puts' backs and come back proved, or are a miss of
// themselves alone. Method: a whole node over a store in memory that is held, full, or lies.
#include "sidecar/conductor/world.h"
#include "tests/unit/conductor/rig.h"

namespace kvsidecar::testing {
namespace {

class StoreSide : public Rig {};

TEST_F(StoreSide, PagesAreWrittenInTheOrderOfTheirPuts) {
  options.limits.store_depth = 1;
  start();
  auto a = engine();
  set_store_faults({.held = true});
  for (const uint64_t key : std::initializer_list<uint64_t>{3, 1, 2})
    EXPECT_EQ(put(*a, key), Code::kOk);
  set_store_faults({});
  ASSERT_TRUE(node->settle());
  EXPECT_EQ(spy->written, (std::vector<int>{3, 1, 2}));
  EXPECT_EQ(disk->pages(), 3u);
}

TEST_F(StoreSide, AFullQueueDropsTheColdestWriteAndNeverThePut) {
  options.limits.store_depth = 1;
  options.limits.write_behind_bytes = 2 * kPage;
  start();
  auto a = engine();
  set_store_faults({.held = true});
  for (uint64_t key = 1; key <= 5; ++key) EXPECT_EQ(put(*a, key), Code::kOk);
  EXPECT_EQ(count(&Counters::writes_dropped_full), 2u);
  set_store_faults({});
  ASSERT_TRUE(node->settle());
  EXPECT_EQ(spy->written, (std::vector<int>{1, 4, 5}));  // 1 was with the store already
  for (uint64_t key = 1; key <= 5; ++key) EXPECT_EQ(place(*a, key), Place::kHost);
}

TEST_F(StoreSide, AnEvictedPageIsReadBackAndProved) {
  start();
  auto a = engine();
  ASSERT_EQ(put(*a, 1), Code::kOk);
  ASSERT_TRUE(node->settle());
  evict(*a, 1);
  EXPECT_EQ(place(*a, 1), Place::kStore);
  EXPECT_EQ(get(*a, 1), Code::kOk);
  EXPECT_TRUE(holds_page(a->block(1), 1));
  EXPECT_EQ(count(&Counters::pages_get_store), 1u);
  EXPECT_EQ(place(*a, 1), Place::kHost);  // and is in the host pool again
}

TEST_F(StoreSide, APageThatIsOnlyStoredExists) {
  start();
  auto a = engine();
  ASSERT_EQ(put(*a, 1), Code::kOk);
  ASSERT_TRUE(node->settle());
  evict(*a, 1);
  const uint64_t copied = count(&Counters::bytes_put);
  EXPECT_EQ(put(*a, 1), Code::kExists);
  EXPECT_EQ(count(&Counters::bytes_put), copied);
}

TEST_F(StoreSide, CorruptBytesAreAMissOfThatPageAndForgotten) {
  start();
  auto a = engine();
  ASSERT_EQ(put(*a, 1), Code::kOk);
  ASSERT_EQ(put(*a, 2), Code::kOk);
  ASSERT_TRUE(node->settle());
  evict(*a, 1);
  evict(*a, 2);
  fill_page(a->block(1), 77);
  set_store_faults({.read_corrupt = 1000});
  EXPECT_EQ(get(*a, 1), Code::kCorrupt);
  set_store_faults({});
  EXPECT_TRUE(holds_page(a->block(1), 77));  // nothing was written into the engine's block
  EXPECT_EQ(place(*a, 1), Place::kMiss);
  EXPECT_EQ(count(&Counters::pages_corrupt), 1u);
  EXPECT_EQ(get(*a, 2), Code::kOk);
  EXPECT_TRUE(holds_page(a->block(1), 2));
  a.reset();
  stop();
  lose_memory();
  start();
  a = engine();
  EXPECT_EQ(place(*a, 1), Place::kMiss);  // a restart doesn't find it again either
  EXPECT_EQ(place(*a, 2), Place::kStore);
}

// O1-14
TEST_F(StoreSide, AnotherPagesBytesDontPassForThisOne) {
  start();
  auto a = engine();
  ASSERT_EQ(put(*a, 1), Code::kOk);
  ASSERT_TRUE(node->settle());
  ASSERT_EQ(put(*a, 2), Code::kOk);
  ASSERT_TRUE(node->settle());
  evict(*a, 1);
  evict(*a, 2);
  spy->swap_reads = {{0, 1}};  // whole and sound, but page 2
  fill_page(a->block(1), 77);
  EXPECT_EQ(get(*a, 1), Code::kCorrupt);
  EXPECT_TRUE(holds_page(a->block(1), 77));
}

TEST_F(StoreSide, AnUnreadablePageIsAMissAndItsSlotComesBack) {
  start();
  auto a = engine();
  ASSERT_EQ(put(*a, 1), Code::kOk);
  ASSERT_TRUE(node->settle());
  evict(*a, 1);
  set_store_faults({.read_fails = 1000});
  EXPECT_EQ(get(*a, 1), Code::kIoError);
  ASSERT_TRUE(node->settle());
  EXPECT_EQ(node->pool().usage().slots_filling, 0u);
}

// O1-13
TEST_F(StoreSide, AStalledReadEndsAtTheDeadlineAndItsSlotWaitsForTheStore) {
  start();
  auto a = engine();
  ASSERT_EQ(put(*a, 1), Code::kOk);
  ASSERT_TRUE(node->settle());
  evict(*a, 1);
  set_store_faults({.held = true});
  fill_page(a->block(1), 77);
  const uint64_t request = a->get({}, {1}, a->layout, {1});
  ASSERT_TRUE(node->settle());
  clock.advance_ns(2 * a->timeout_ns);
  EXPECT_EQ(a->wait(request).items[0], Code::kTimeout);
  EXPECT_EQ(node->pool().usage().slots_filling, 1u);  // the read may still land in it
  set_store_faults({});
  ASSERT_TRUE(node->settle());
  EXPECT_EQ(node->pool().usage().slots_filling, 0u);
  EXPECT_TRUE(holds_page(a->block(1), 77));
}

TEST_F(StoreSide, AFullStoreQueueMakesAGetBusyAndLosesNothing) {
  start();
  auto a = engine();
  ASSERT_EQ(put(*a, 1), Code::kOk);
  ASSERT_TRUE(node->settle());
  evict(*a, 1);
  spy->refuse = true;
  EXPECT_EQ(get(*a, 1), Code::kBusy);
  EXPECT_GT(count(&Counters::busy_store_queue), 0u);
  spy->refuse = false;
  EXPECT_EQ(get(*a, 1), Code::kOk);
}

TEST_F(StoreSide, PrefetchBringsThePagesOfTheLookupIntoTheHostPool) {
  start();
  auto a = engine();
  ASSERT_EQ(put(*a, 1), Code::kOk);
  ASSERT_TRUE(node->settle());
  evict(*a, 1);
  LookupRequest lookup;
  lookup.prefetch = true;
  a->wait(a->lookup(lookup, {1}));
  ASSERT_TRUE(node->settle());
  EXPECT_EQ(count(&Counters::pages_prefetched), 1u);
  EXPECT_EQ(place(*a, 1), Place::kHost);
  EXPECT_EQ(get(*a, 1), Code::kOk);
  EXPECT_TRUE(holds_page(a->block(1), 1));
}

TEST_F(StoreSide, BeyondTheCapacityWholeSegmentsGoAndHotPagesAreAppendedAgain) {
  store_options.segment_bytes = 8 * (kPage + 4096);
  options.limits.store_capacity_bytes = 2 * store_options.segment_bytes;
  options.pool_bytes = 4 << 20;
  start();
  auto a = engine();
  for (uint64_t key = 1; key <= 24; ++key) ASSERT_EQ(put(*a, key), Code::kOk);
  ASSERT_TRUE(node->settle());
  EXPECT_GT(count(&Counters::segments_unlinked), 0u);
  EXPECT_LE(spy->used_bytes(), options.limits.store_capacity_bytes + store_options.segment_bytes);
  EXPECT_GT(spy->written.size(), 24u);  // some were written twice: they are in the host pool
  for (uint64_t key = 1; key <= 24; ++key) EXPECT_EQ(place(*a, key), Place::kHost);
}

TEST_F(StoreSide, ASegmentGoesOnlyWhenNoWriteCanBeInIt) {
  store_options.segment_bytes = 8 * (kPage + 4096);
  options.limits.store_capacity_bytes = kPage + 4096;  // less than what comes at once
  start();
  auto a = engine();
  set_store_faults({.held = true});
  for (uint64_t key = 1; key <= 5; ++key) ASSERT_EQ(put(*a, key), Code::kOk);
  set_store_faults({});
  ASSERT_TRUE(node->settle());
  // What the conductor believes to be stored is stored.
  EXPECT_EQ(node->conductor().gauges().store_bytes, spy->used_bytes());
}

TEST_F(StoreSide, AtSecondUseAPageIsWrittenWhenItIsLookedUp) {
  options.limits.admission = Admission::kSecondUse;
  start();
  auto a = engine();
  ASSERT_EQ(put(*a, 1), Code::kOk);
  ASSERT_EQ(put(*a, 2), Code::kOk);
  ASSERT_TRUE(node->settle());
  EXPECT_TRUE(spy->written.empty());
  place(*a, 2);
  ASSERT_TRUE(node->settle());
  EXPECT_EQ(spy->written, std::vector<int>{2});
}

// Uses are told after the answer, and a queue's turn may come late: what was deleted meanwhile and
// is still held must not reach the store, where the next start would find it.
TEST_F(StoreSide, ADeletedPageThatALeaseHoldsIsNotWritten) {
  for (const Admission admission : {Admission::kSecondUse, Admission::kAtOnce}) {
    options.limits.admission = admission;
    options.limits.store_depth = 1;
    start();
    auto a = engine();
    set_store_faults({.held = true});
    for (const uint64_t key : {uint64_t{1}, uint64_t{2}}) ASSERT_EQ(put(*a, key), Code::kOk);
    const size_t before = spy->written.size();  // at once: 1 is with the store, 2 waits
    LookupRequest leased;
    leased.lease_ms = 10'000;
    const uint64_t looked_up = a->lookup(leased, {2});
    EXPECT_EQ(erase(*a, 2), Code::kOk);  // taken in the same turn
    set_store_faults({});
    ASSERT_TRUE(node->settle());
    EXPECT_EQ(spy->written.size(), before);
    const Handle lease = a->wait(looked_up).head.handle;
    ASSERT_NE(lease, 0u);
    EXPECT_EQ(a->wait(a->send(RecordType::kRelease, ReleaseRequest{lease})).status(), Code::kOk);
    EXPECT_EQ(place(*a, 2), Place::kMiss);
    ASSERT_TRUE(node->settle());
    EXPECT_EQ(spy->written.size(), before);
    EXPECT_EQ(node->conductor().gauges().write_behind_pages, 0u);
    a.reset();
    stop();
    disk = std::make_shared<MemoryDisk>();
    lose_memory();
  }
}

TEST_F(StoreSide, APageDeletedWhileItIsWrittenIsBuriedThoughTheStoresQueueIsFull) {
  start();
  auto a = engine();
  set_store_faults({.held = true});
  ASSERT_EQ(put(*a, 1), Code::kOk);
  ASSERT_EQ(spy->written.size(), 1u);
  EXPECT_EQ(erase(*a, 1), Code::kOk);
  spy->refuse = true;
  set_store_faults({});
  ASSERT_TRUE(node->settle());
  spy->refuse = false;
  ASSERT_TRUE(node->settle());
  EXPECT_EQ(spy->count(StoreOp::kDelete), 1u);
  EXPECT_TRUE(node->conductor().drained());
  a.reset();
  stop();
  lose_memory();
  start();
  a = engine();
  EXPECT_EQ(place(*a, 1), Place::kMiss);
}

TEST_F(StoreSide, AtEvictionAPageIsWrittenBeforeItGoes) {
  options.limits.admission = Admission::kAtEviction;
  start();
  auto a = engine();
  ASSERT_EQ(put(*a, 1), Code::kOk);
  ASSERT_TRUE(node->settle());
  EXPECT_TRUE(spy->written.empty());
  for (uint64_t key = 100; key < 160; ++key) {
    ASSERT_EQ(put(*a, key), Code::kOk);
    ASSERT_TRUE(node->settle());
  }
  EXPECT_FALSE(spy->written.empty());
}

TEST_F(StoreSide, TheRateLimitCountsWritesThatStartAndNoOthers) {
  options.limits.write_bytes_per_s = kPage;
  start();
  auto a = engine();
  for (uint64_t key = 1; key <= 4; ++key) ASSERT_EQ(put(*a, key), Code::kOk);
  ASSERT_TRUE(node->settle());
  spy->refuse = true;
  for (int turn = 0; turn < 20; ++turn) node->step();  // refused writes cost nothing
  spy->refuse = false;
  const size_t before = spy->written.size();
  for (int second = 0; second < 2; ++second) {
    clock.advance_ns(1'000'000'000);
    ASSERT_TRUE(node->settle());
  }
  EXPECT_EQ(spy->written.size(), before + 2);
}

TEST_F(StoreSide, AStalledStoreLeavesTheWriteQueueBounded) {
  options.limits.store_depth = 1;
  start();
  auto a = engine();
  set_store_faults({.held = true});
  for (uint64_t key = 1; key <= 250; ++key) ASSERT_EQ(put(*a, key), Code::kOk);  // evicted in turn
  const World& world = node->conductor().world();
  EXPECT_LE(world.write_queue.size(), 2 * world.writes_queued + 33);
  EXPECT_GT(count(&Counters::writes_dropped_evicted), 100u);
}

TEST_F(StoreSide, ARestartWithoutMemoryFindsTheStoredPages) {
  start();
  auto a = engine();
  for (uint64_t key = 1; key <= 3; ++key) ASSERT_EQ(put(*a, key), Code::kOk);
  ASSERT_TRUE(node->settle());
  a.reset();
  stop();
  lose_memory();
  start();
  EXPECT_EQ(count(&Counters::pages_scanned), 3u);
  a = engine();
  for (uint64_t key = 1; key <= 3; ++key) {
    EXPECT_EQ(place(*a, key), Place::kStore);
    EXPECT_EQ(get(*a, key), Code::kOk);
    EXPECT_TRUE(holds_page(a->block(1), key));
  }
}

TEST_F(StoreSide, PagesOfAClearedGenerationAreNotFoundAndTheirSegmentsGo) {
  start();
  auto a = engine();
  ASSERT_EQ(put(*a, 1), Code::kOk);
  ASSERT_TRUE(node->settle());
  EXPECT_EQ(a->wait(a->send(RecordType::kClear, ClearRequest{a->space, {}})).status(), Code::kOk);
  EXPECT_EQ(disk->pages(), 1u);
  a.reset();
  stop();
  start();
  a = engine();
  EXPECT_EQ(place(*a, 1), Place::kMiss);
  ASSERT_TRUE(node->settle());
  EXPECT_EQ(disk->pages(), 0u);
}

TEST_F(StoreSide, ADeletedPageIsDeletedInTheStoreToo) {
  start();
  auto a = engine();
  ASSERT_EQ(put(*a, 1), Code::kOk);
  ASSERT_TRUE(node->settle());
  EXPECT_EQ(erase(*a, 1), Code::kOk);
  a.reset();
  stop();
  lose_memory();
  start();
  a = engine();
  EXPECT_EQ(place(*a, 1), Place::kMiss);
}

TEST_F(StoreSide, ADeleteWithoutRoomForItsTombstoneIsBusyAndDeletesNothing) {
  start();
  auto a = engine();
  ASSERT_EQ(put(*a, 1), Code::kOk);
  ASSERT_TRUE(node->settle());
  spy->refuse = true;
  EXPECT_EQ(erase(*a, 1), Code::kBusy);
  EXPECT_EQ(place(*a, 1), Place::kHost);
  spy->refuse = false;
  EXPECT_EQ(erase(*a, 1), Code::kOk);
}

TEST_F(StoreSide, BeforeTheStoresPagesAreKnownADeleteIsBusy) {
  start();
  auto a = engine();
  ASSERT_EQ(put(*a, 1), Code::kOk);
  ASSERT_TRUE(node->settle());
  a.reset();
  stop();
  start(/*scan=*/false);
  set_store_faults({.held = true});
  node->conductor().scan_store();
  a = engine();
  EXPECT_EQ(erase(*a, 1), Code::kBusy);  // else the scan would bring it back
  set_store_faults({});
  ASSERT_TRUE(node->settle());
  EXPECT_EQ(erase(*a, 1), Code::kOk);
  EXPECT_EQ(place(*a, 1), Place::kMiss);
}

}  // namespace
}  // namespace kvsidecar::testing
