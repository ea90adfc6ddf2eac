// SPDX-License-Identifier: Apache-2.0
// Goal: a lease holds its pages between lookup and load, within its time and its caps, and is only
// for those who have it. Method: a small pool that evicts, and time in the test's hand.
#include "sidecar/conductor/world.h"
#include "tests/unit/conductor/rig.h"

namespace kvsidecar::testing {
namespace {

class Leases : public Rig {
 protected:
  Leases() { with_store = false; }
  Answer leased(Engine& e, const std::vector<uint64_t>& keys, uint32_t ms = 5'000) {
    LookupRequest lookup;
    lookup.lease_ms = ms;
    return e.wait(e.lookup(lookup, keys));
  }
  void fill_the_pool(Engine& e) {
    for (uint64_t key = 100; key < 160; ++key) put(e, key);
  }
  Answer release(Engine& e, Handle lease) {
    return e.wait(e.send(RecordType::kRelease, ReleaseRequest{lease}));
  }
  Answer get_under(Engine& e, Handle lease, uint64_t key) {
    GetRequest request;
    request.lease = lease;
    return e.wait(e.get(request, {key}, e.layout, {1}));
  }
};

TEST_F(Leases, ALeasedPageIsNotEvicted) {
  start();
  auto a = engine();
  ASSERT_EQ(put(*a, 1), Code::kOk);
  ASSERT_EQ(put(*a, 2), Code::kOk);
  const Answer lookup = leased(*a, {1});
  ASSERT_NE(lookup.head.handle, 0u);
  fill_the_pool(*a);
  EXPECT_EQ(place(*a, 1), Place::kHost);
  EXPECT_EQ(place(*a, 2), Place::kMiss);  // the pool did have to evict
  EXPECT_EQ(get_under(*a, lookup.head.handle, 1).items[0], Code::kOk);
  EXPECT_TRUE(holds_page(a->block(1), 1));
}

// O2-12
TEST_F(Leases, AnExpiredLeaseCostsItsPinsAndAGetUnderItIsTried) {
  start();
  auto a = engine();
  ASSERT_EQ(put(*a, 1), Code::kOk);
  const Answer lookup = leased(*a, {1});
  clock.advance_ns(6'000'000'000);
  ASSERT_TRUE(node->settle());
  EXPECT_EQ(node->conductor().gauges().leases, 0u);
  EXPECT_EQ(count(&Counters::leases_expired), 1u);
  EXPECT_EQ(get_under(*a, lookup.head.handle, 1).items[0], Code::kOk);
  fill_the_pool(*a);
  const Answer late = get_under(*a, lookup.head.handle, 1);
  EXPECT_EQ(late.status(), Code::kOk);
  EXPECT_EQ(late.items[0], Code::kMiss);
}

TEST_F(Leases, NoneLastsLongerThanTheConfiguredLongest) {
  options.limits.lease_max_ns = 1'000'000'000;
  start();
  auto a = engine();
  ASSERT_EQ(put(*a, 1), Code::kOk);
  leased(*a, {1}, 3'600'000);
  clock.advance_ns(1'100'000'000);
  ASSERT_TRUE(node->settle());
  EXPECT_EQ(node->conductor().gauges().leases, 0u);
}

TEST_F(Leases, BeyondTheSessionsCapTheAnswerComesWithoutOneAndSaysSo) {
  options.limits.lease_pages_per_session = 2;
  start();
  auto a = engine();
  for (uint64_t key = 1; key <= 3; ++key) ASSERT_EQ(put(*a, key), Code::kOk);
  const Answer lookup = leased(*a, {1, 2, 3});
  EXPECT_EQ(lookup.status(), Code::kOk);
  EXPECT_EQ(lookup.head.value, 3u);
  EXPECT_EQ(lookup.head.handle, 0u);
  EXPECT_EQ(lookup.head.flags & kCompletionLeaseCapped, kCompletionLeaseCapped);
  EXPECT_EQ(count(&Counters::leases_capped), 1u);
  EXPECT_NE(leased(*a, {1, 2}).head.handle, 0u);
}

TEST_F(Leases, AllTogetherHoldAShareOfThePoolAtMost) {
  options.limits.lease_share_percent = 30;  // of 1 MiB: 4 pages
  start();
  auto a = engine(), b = engine();
  for (uint64_t key = 1; key <= 6; ++key) ASSERT_EQ(put(*a, key), Code::kOk);
  EXPECT_NE(leased(*a, {1, 2, 3}).head.handle, 0u);
  EXPECT_EQ(leased(*b, {4, 5}).head.handle, 0u);
  EXPECT_NE(leased(*b, {4}).head.handle, 0u);
}

TEST_F(Leases, AReleaseEndsItOnce) {
  start();
  auto a = engine();
  ASSERT_EQ(put(*a, 1), Code::kOk);
  const Handle lease = leased(*a, {1}).head.handle;
  EXPECT_EQ(release(*a, lease).status(), Code::kOk);
  EXPECT_EQ(node->conductor().gauges().lease_pages, 0u);
  const Answer again = release(*a, lease);
  EXPECT_EQ(again.status(), Code::kExpired);
  EXPECT_NE(again.text.find("look the prompt up again"), std::string::npos) << again.text;
}

TEST_F(Leases, AnotherSessionsLeaseIsUnknown) {
  start();
  auto a = engine(), b = engine();
  ASSERT_EQ(put(*a, 1), Code::kOk);
  const Handle lease = leased(*a, {1}).head.handle;
  EXPECT_EQ(release(*b, lease).status(), Code::kUnknownHandle);
  EXPECT_EQ(get_under(*b, lease, 1).status(), Code::kUnknownHandle);
  EXPECT_EQ(node->conductor().gauges().leases, 1u);
}

TEST_F(Leases, ALeaseOfAnEarlierEpochIsRefusedNotGuessed) {
  start();
  auto a = engine();
  ASSERT_EQ(put(*a, 1), Code::kOk);
  const Handle lease = leased(*a, {1}).head.handle;
  a.reset();
  stop();
  start();
  a = engine();
  const Answer answer = release(*a, lease);
  EXPECT_EQ(answer.status(), Code::kStaleHandle);
  EXPECT_NE(answer.text.find("earlier epoch"), std::string::npos) << answer.text;
}

TEST_F(Leases, APageWithALeaseIsDeletedAndGoesWithTheLease) {
  start();
  auto a = engine();
  ASSERT_EQ(put(*a, 1), Code::kOk);
  const Handle lease = leased(*a, {1}).head.handle;
  EXPECT_EQ(erase(*a, 1), Code::kOk);
  EXPECT_EQ(place(*a, 1), Place::kMiss);
  EXPECT_EQ(put(*a, 1), Code::kBusy);  // its slot is still held
  EXPECT_EQ(node->pool().usage().slots_full, 1u);
  release(*a, lease);
  EXPECT_EQ(node->pool().usage().slots_full, 0u);
  EXPECT_EQ(put(*a, 1), Code::kOk);
}

// 32 requests of 2,048 items, all of one page with a key of one byte.
TEST_F(Leases, OnePageMayBeHeldMoreThan65535Times) {
  start();
  auto a = engine();
  const std::byte key{7};
  std::vector<uint32_t> claims = a->take_claims(a->next_request(), 1);
  const Block block{a->layout, 0, claims[0]};
  PutRequest put;
  put.namespace_handle = a->space;
  put.keys = {{&key, 1}, 1};
  put.items.blocks = {&block, 1};
  ASSERT_EQ(a->wait(a->send(RecordType::kPut, put)).items[0], Code::kOk);
  const std::vector<std::byte> keys(kItemsMax, key);
  const std::vector<Block> blocks(kItemsMax, Block{a->layout, 1, 0});
  GetRequest get;
  get.namespace_handle = a->space;
  get.keys = {keys, 1};
  get.items.blocks = blocks;
  get.fence = {0, 0, 1};  // never reached
  a->timeout_ns = 60'000'000'000;
  std::vector<uint64_t> requests;
  for (uint32_t i = 0; i < Engine::kGeometry.completion_cells; ++i) {
    requests.push_back(a->send(RecordType::kGet, get));
    node->step();
  }
  const World& world = node->conductor().world();
  const EntryId entry = world.parts.pool->note(world.parts.pool->next_slot(0)).entry;
  EXPECT_EQ(world.index[entry].pins, requests.size() * kItemsMax);
  clock.advance_ns(61'000'000'000);
  for (const uint64_t request : requests) a->wait(request);
  EXPECT_EQ(world.index[entry].pins, 0u);
}

}  // namespace
}  // namespace kvsidecar::testing
