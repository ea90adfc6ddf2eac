// SPDX-License-Identifier: Apache-2.0
// Goal: durable means stored: OK and EXISTS come after data, entry and sync, or the answer is
// NOT_STORED and the page stays in memory. Method: hold, fill and stop the store in between.
#include "sidecar/conductor/world.h"
#include "tests/unit/conductor/rig.h"

namespace kvsidecar::testing {
namespace {

class Durable : public Rig {};

TEST_F(Durable, OkComesAfterTheStoreHasIt) {
  start();
  auto a = engine();
  set_store_faults({.held = true});
  const uint64_t request = begin_put(*a, 1, true);
  ASSERT_TRUE(node->settle());
  EXPECT_FALSE(a->answer(request).has_value());
  EXPECT_EQ(place(*a, 1), Place::kHost);  // visible all the same
  set_store_faults({});
  EXPECT_EQ(a->wait(request).items[0], Code::kOk);
  SeededRandom power(3);
  disk->crash(power);
  EXPECT_EQ(disk->pages(), 1u);
}

TEST_F(Durable, AFullStoreIsNotStoredAndThePageStaysInMemory) {
  start();
  auto a = engine();
  set_store_faults({.full = true});
  EXPECT_EQ(put(*a, 1, true), Code::kNotStored);
  EXPECT_EQ(place(*a, 1), Place::kHost);
  EXPECT_EQ(get(*a, 1), Code::kOk);
  EXPECT_EQ(count(&Counters::not_stored), 1u);
  EXPECT_EQ(count(&Counters::pages_put_stored), 1u);
}

TEST_F(Durable, WithoutAStoreItIsNotStored) {
  with_store = false;
  start();
  auto a = engine();
  EXPECT_EQ(put(*a, 1, true), Code::kNotStored);
  EXPECT_EQ(place(*a, 1), Place::kHost);
}

TEST_F(Durable, AnExistingPageIsWaitedForToo) {
  start();
  auto a = engine(), b = engine();
  set_store_faults({.held = true});
  ASSERT_EQ(put(*a, 1), Code::kOk);  // write-behind, by another writer
  const uint64_t request = begin_put(*b, 1, true);
  ASSERT_TRUE(node->settle());
  EXPECT_FALSE(b->answer(request).has_value());
  set_store_faults({});
  EXPECT_EQ(b->wait(request).items[0], Code::kExists);
  EXPECT_EQ(spy->count(StoreOp::kFlush), 1u);  // what was written without sync is synced for it
}

TEST_F(Durable, AStoredPageIsSyncedBeforeExists) {
  start();
  auto a = engine();
  ASSERT_EQ(put(*a, 1), Code::kOk);
  ASSERT_TRUE(node->settle());
  EXPECT_EQ(put(*a, 1, true), Code::kExists);
  EXPECT_EQ(spy->count(StoreOp::kFlush), 1u);
}

TEST_F(Durable, ADurablePageIsNotEvictedWhileItWaits) {
  options.limits.store_depth = 1;
  start();
  auto a = engine();
  set_store_faults({.held = true});
  ASSERT_EQ(put(*a, 9), Code::kOk);  // with the store, so the next one stays in the queue
  a->timeout_ns = 60'000'000'000;
  const uint64_t request = begin_put(*a, 1, true);
  for (uint64_t key = 100; key < 160; ++key) ASSERT_EQ(put(*a, key), Code::kOk);
  EXPECT_EQ(place(*a, 1), Place::kHost);
  set_store_faults({});
  EXPECT_EQ(a->wait(request).items[0], Code::kOk);
}

TEST_F(Durable, PastTheDeadlineItIsNotStored) {
  start();
  auto a = engine();
  set_store_faults({.held = true});
  const uint64_t request = begin_put(*a, 1, true);
  ASSERT_TRUE(node->settle());
  clock.advance_ns(2 * a->timeout_ns);
  EXPECT_EQ(a->wait(request).items[0], Code::kNotStored);
  EXPECT_EQ(place(*a, 1), Place::kHost);
}

// Time passes while the device copies.
class SlowCopy final : public FaultPoints {
 public:
  explicit SlowCopy(FakeClock& clock) : clock_(clock) {}
  int fail(std::string_view point) override {
    if (point == "device.copy") clock_.advance_ns(5'000'000'000);
    return 0;
  }

 private:
  FakeClock& clock_;
};

TEST_F(Durable, ADeadlineThatPassedDuringTheCopyIsNotStoredAtOnce) {
  SlowCopy slow(clock);
  spy = std::make_unique<SpyStore>(disk, store_options, random);
  options.store = spy.get();
  node = std::make_unique<Node>(options, remains, clock, random, slow);
  auto a = engine();
  set_store_faults({.held = true});  // for ever
  EXPECT_EQ(put(*a, 1, true), Code::kNotStored);
  set_store_faults({});
}

TEST_F(Durable, ADeleteOfThePageAnswersWhoWaits) {
  options.limits.store_depth = 1;
  start();
  auto a = engine(), b = engine();
  set_store_faults({.held = true});
  ASSERT_EQ(put(*a, 9), Code::kOk);
  const uint64_t request = begin_put(*a, 1, true);
  ASSERT_TRUE(node->settle());
  EXPECT_EQ(erase(*b, 1), Code::kOk);
  EXPECT_EQ(a->wait(request).items[0], Code::kNotStored);
  EXPECT_TRUE(node->conductor().world().durable_waiters.empty());
  set_store_faults({});
  EXPECT_EQ(place(*a, 1), Place::kMiss);
}

TEST_F(Durable, ACancelledWaitIsNotStoredAndThePageStays) {
  start();
  auto a = engine();
  set_store_faults({.held = true});
  const uint64_t request = begin_put(*a, 1, true);
  ASSERT_TRUE(node->settle());
  EXPECT_EQ(a->wait(a->send(RecordType::kCancel, CancelRequest{request})).head.value, 1u);
  EXPECT_EQ(a->wait(request).items[0], Code::kNotStored);
  EXPECT_EQ(get(*a, 1), Code::kOk);
  set_store_faults({});
}

TEST_F(Durable, DurablePagesAreNotDroppedFromAFullQueue) {
  options.limits.store_depth = 1;
  options.limits.write_behind_bytes = 2 * kPage;
  start();
  auto a = engine();
  set_store_faults({.held = true});
  ASSERT_EQ(put(*a, 9), Code::kOk);
  const uint64_t first = begin_put(*a, 1, true);
  ASSERT_TRUE(node->settle());
  const uint64_t second = begin_put(*a, 2, true);
  ASSERT_TRUE(node->settle());
  EXPECT_EQ(put(*a, 3, true), Code::kNotStored);  // nothing in the queue may go for it
  EXPECT_EQ(put(*a, 4), Code::kOk);
  set_store_faults({});
  EXPECT_EQ(a->wait(first).items[0], Code::kOk);
  EXPECT_EQ(a->wait(second).items[0], Code::kOk);
}

}  // namespace
}  // namespace kvsidecar::testing
