// SPDX-License-Identifier: Apache-2.0
// Goal: a page goes in, is found and comes out exactly; what isn't there is a miss; one key is one
// page however many write it. Method: a whole node in one thread, scripted engines over real rings.
#include <gtest/gtest.h>

#include "tests/support/engine.h"

namespace kvsidecar::testing {
namespace {

constexpr uint64_t kPage = 64 * 1024;

class PutGet : public ::testing::Test {
 protected:
  PutGet() : node_({}, remains_, clock_, random_) {}

  std::unique_ptr<Engine> engine(const NamespaceFields& fields = fields_of(kPage),
                                 AttachRequest attach = {}) {
    auto made = std::make_unique<Engine>(node_, clock_, 4ull << 20);
    made->set_up(fields, 16, attach);
    return made;
  }
  uint64_t count(const Counter Counters::*counter) {
    return (node_.conductor().counters().*counter).value();
  }

  FakeClock clock_;
  SeededRandom random_{1};
  NodeRemains remains_;
  Node node_;
};

TEST_F(PutGet, APutPageIsFoundAndComesOutByteForByte) {
  auto a = engine();
  fill_page(a->block(0), 7);
  const Answer put = a->wait(a->put({}, {7}, a->layout, {0}));
  EXPECT_EQ(put.items, std::vector<Code>{Code::kOk});
  const Answer found = a->wait(a->lookup({}, {7, 8}));
  EXPECT_EQ(found.head.value, 1u);
  EXPECT_EQ(found.places, (std::vector<uint8_t>{1, 0}));
  const Answer got = a->wait(a->get({}, {7}, a->layout, {5}));
  EXPECT_EQ(got.items, std::vector<Code>{Code::kOk});
  EXPECT_TRUE(holds_page(a->block(5), 7));
}

TEST_F(PutGet, ALookupThatStartsAfterThePutsOkFindsItFromAnotherSession) {
  auto a = engine(), b = engine();
  fill_page(a->block(0), 1);
  ASSERT_EQ(a->wait(a->put({}, {1}, a->layout, {0})).items[0], Code::kOk);
  EXPECT_EQ(b->wait(b->lookup({}, {1})).head.value, 1u);
  EXPECT_EQ(b->wait(b->get({}, {1}, b->layout, {3})).items[0], Code::kOk);
  EXPECT_TRUE(holds_page(b->block(3), 1));
}

TEST_F(PutGet, AnAbsentPageIsAMissAndLeavesTheBlockAlone) {
  auto a = engine();
  fill_page(a->block(2), 99);
  const uint64_t request = a->get({}, {4}, a->layout, {2});
  EXPECT_EQ(a->wait(request).items[0], Code::kMiss);
  EXPECT_EQ(a->claim(request, 0).state(), ClaimState::kSkipped);
  EXPECT_TRUE(holds_page(a->block(2), 99));
}

TEST_F(PutGet, ASecondPutOfAKeyIsExistsAndTheFirstBytesStay) {
  auto a = engine();
  fill_page(a->block(0), 1);
  ASSERT_EQ(a->wait(a->put({}, {1}, a->layout, {0})).items[0], Code::kOk);
  fill_page(a->block(1), 1, 0, /*version=*/1);
  EXPECT_EQ(a->wait(a->put({}, {1}, a->layout, {1})).items[0], Code::kExists);
  ASSERT_EQ(a->wait(a->get({}, {1}, a->layout, {4})).items[0], Code::kOk);
  EXPECT_TRUE(holds_page(a->block(4), 1));
}

// O11-02
TEST_F(PutGet, WritersOfOneKeyAtOnceMakeOnePage) {
  auto a = engine(), b = engine();
  fill_page(a->block(0), 1);
  fill_page(b->block(0), 1);
  const uint64_t first = a->put({}, {1, 1}, a->layout, {0, 0});
  const uint64_t second = b->put({}, {1}, b->layout, {0});
  std::vector<Code> codes = a->wait(first).items;
  codes.push_back(b->wait(second).items[0]);
  EXPECT_EQ(std::count(codes.begin(), codes.end(), Code::kOk), 1);
  EXPECT_EQ(std::count(codes.begin(), codes.end(), Code::kExists), 2);
  EXPECT_EQ(count(&Counters::pages_completed), 1u);
  EXPECT_EQ(node_.pool().usage().slots_full, 1u);
}

// O2-02
TEST_F(PutGet, APageIsVisibleOnlyWhenItsLastPartIsIn) {
  const NamespaceFields fields = fields_of(kPage, 2);
  AttachRequest second;
  second.coordinate.tp = 1;
  auto rank0 = engine(fields), rank1 = engine(fields, second);
  fill_page(rank0->block(0), 1, 0);
  fill_page(rank1->block(0), 1, 1);
  EXPECT_EQ(rank0->wait(rank0->put({}, {1}, rank0->layout, {0})).items[0], Code::kOkPart);
  EXPECT_EQ(rank0->wait(rank0->lookup({}, {1})).head.value, 0u);
  EXPECT_EQ(rank1->wait(rank1->put({}, {1}, rank1->layout, {0})).items[0], Code::kOk);
  EXPECT_EQ(rank0->wait(rank0->lookup({}, {1})).head.value, 1u);
  ASSERT_EQ(rank0->wait(rank0->get({}, {1}, rank0->layout, {3})).items[0], Code::kOk);
  ASSERT_EQ(rank1->wait(rank1->get({}, {1}, rank1->layout, {3})).items[0], Code::kOk);
  EXPECT_TRUE(holds_page(rank0->block(3), 1, 0));
  EXPECT_TRUE(holds_page(rank1->block(3), 1, 1));
}

TEST_F(PutGet, AGetMayNameAnotherPartThanTheSessionsOwn) {
  const NamespaceFields fields = fields_of(kPage, 2);
  AttachRequest second;
  second.coordinate.tp = 1;
  auto rank0 = engine(fields), rank1 = engine(fields, second);
  fill_page(rank0->block(0), 1, 0);
  fill_page(rank1->block(0), 1, 1);
  rank0->wait(rank0->put({}, {1}, rank0->layout, {0}));
  ASSERT_EQ(rank1->wait(rank1->put({}, {1}, rank1->layout, {0})).items[0], Code::kOk);
  GetRequest other;
  other.has_coordinate = true;
  other.coordinate.tp = 1;
  ASSERT_EQ(rank0->wait(rank0->get(other, {1}, rank0->layout, {5})).items[0], Code::kOk);
  EXPECT_TRUE(holds_page(rank0->block(5), 1, 1));
}

TEST_F(PutGet, PartsThatStayAloneAreDroppedAfterATime) {
  const NamespaceFields fields = fields_of(kPage, 2);
  auto rank0 = engine(fields);
  fill_page(rank0->block(0), 1);
  ASSERT_EQ(rank0->wait(rank0->put({}, {1}, rank0->layout, {0})).items[0], Code::kOkPart);
  EXPECT_EQ(node_.pool().usage().slots_filling, 1u);
  clock_.advance_ns(Limits{}.parts_timeout_ns + 1'000'000'000);
  ASSERT_TRUE(node_.settle());
  EXPECT_EQ(node_.pool().usage().slots_filling, 0u);
  EXPECT_EQ(count(&Counters::pages_dropped_parts), 1u);
}

// O1-01
TEST_F(PutGet, ACopyWaitsForItsFence) {
  auto a = engine();
  PutRequest put;
  put.fence = {3, 0, 10};
  const uint64_t request = a->put(put, {1}, a->layout, {0});
  ASSERT_TRUE(node_.settle());
  EXPECT_FALSE(a->answer(request).has_value());
  fill_page(a->block(0), 1);  // the engine's kernels finish only now
  a->session_memory().fence(3)->store(10);
  EXPECT_EQ(a->wait(request).items[0], Code::kOk);
  ASSERT_EQ(a->wait(a->get({}, {1}, a->layout, {2})).items[0], Code::kOk);
  EXPECT_TRUE(holds_page(a->block(2), 1));
}

TEST_F(PutGet, AFenceThatIsNeverSignalledEndsTimeoutAndMakesNoPage) {
  auto a = engine();
  PutRequest put;
  put.fence = {3, 0, 10};
  const uint64_t request = a->put(put, {1}, a->layout, {0});
  ASSERT_TRUE(node_.settle());
  clock_.advance_ns(2 * a->timeout_ns);
  EXPECT_EQ(a->wait(request).items[0], Code::kTimeout);
  EXPECT_EQ(a->claim(request, 0).state(), ClaimState::kRevoked);
  EXPECT_EQ(a->wait(a->lookup({}, {1})).head.value, 0u);
  EXPECT_EQ(node_.pool().usage().slots_filling, 0u);
}

TEST_F(PutGet, ARevokedClaimIsNeverCopied) {
  auto a = engine();
  fill_page(a->block(0), 1);
  ASSERT_EQ(a->wait(a->put({}, {1}, a->layout, {0})).items[0], Code::kOk);
  const uint64_t request = a->get({}, {1}, a->layout, {2});
  ASSERT_TRUE(a->claim(request, 0).move(ClaimState::kQueued, ClaimState::kRevoked));
  fill_page(a->block(2), 77);  // the block is the engine's again at once
  EXPECT_EQ(a->wait(request).items[0], Code::kRevoked);
  EXPECT_TRUE(holds_page(a->block(2), 77));
}

// The client acts in the middle of a copy: the device asks this before it touches the first byte.
class AbandonDuringCopy final : public FaultPoints {
 public:
  int fail(std::string_view point) override {
    if (point == "device.copy" && claim)
      moved = claim.move(ClaimState::kCopying, ClaimState::kAbandoned);
    return 0;
  }
  Claim claim;
  bool moved = false;
};

// O1-12
TEST(Abandon, APutGivenUpDuringItsCopyNeverCounts) {
  FakeClock clock;
  SeededRandom random(1);
  NodeRemains remains;
  AbandonDuringCopy abandon;
  Node node({}, remains, clock, random, abandon);
  Engine a(node, clock, 4ull << 20);
  a.set_up(fields_of(kPage), 16);
  const uint64_t request = a.put({}, {1}, a.layout, {0});
  abandon.claim = a.claim(request, 0);
  EXPECT_EQ(a.wait(request).items[0], Code::kAbandoned);
  EXPECT_TRUE(abandon.moved);
  EXPECT_EQ(a.wait(a.lookup({}, {1})).head.value, 0u);
  EXPECT_EQ(node.pool().usage().slots_filling, 0u);
  EXPECT_EQ(node.conductor().counters().pages_put_abandoned.value(), 1u);
}

TEST_F(PutGet, WhenTheFirstWriterFailsTheNextOneTakesOver) {
  auto a = engine(), b = engine();
  fill_page(b->block(0), 1);
  const uint64_t first = a->put({}, {1}, a->layout, {0});
  const uint64_t second = b->put({}, {1}, b->layout, {0});
  ASSERT_TRUE(a->claim(first, 0).move(ClaimState::kQueued, ClaimState::kRevoked));
  EXPECT_EQ(a->wait(first).items[0], Code::kRevoked);
  EXPECT_EQ(b->wait(second).items[0], Code::kOk);
}

TEST_F(PutGet, LayeredGetsPublishTheirProgress) {
  auto a = std::make_unique<Engine>(node_, clock_, 4ull << 20);
  a->set_up(fields_of(kPage), 16, {}, /*runs=*/4);
  fill_page(a->block(0), 1);
  fill_page(a->block(1), 2);
  ASSERT_EQ(a->wait(a->put({}, {1, 2}, a->layout, {0, 1})).items,
            (std::vector<Code>{Code::kOk, Code::kOk}));
  GetRequest get;
  get.progress = 5;
  ASSERT_EQ(a->wait(a->get(get, {1, 2}, a->layout, {8, 9})).items,
            (std::vector<Code>{Code::kOk, Code::kOk}));
  EXPECT_EQ(a->session_memory().info().progress[5].load(), 4u);
  EXPECT_TRUE(holds_page(a->block(8), 1));
  EXPECT_TRUE(holds_page(a->block(9), 2));
}

// O1-11
TEST_F(PutGet, ALayeredGetThatMissesAPageShowsNoProgress) {
  auto a = std::make_unique<Engine>(node_, clock_, 4ull << 20);
  a->set_up(fields_of(kPage), 16, {}, /*runs=*/4);
  fill_page(a->block(0), 1);
  ASSERT_EQ(a->wait(a->put({}, {1}, a->layout, {0})).items[0], Code::kOk);
  GetRequest get;
  get.progress = 5;
  const Answer got = a->wait(a->get(get, {1, 2}, a->layout, {8, 9}));
  EXPECT_EQ(got.items, (std::vector<Code>{Code::kOk, Code::kMiss}));
  EXPECT_TRUE(holds_page(a->block(8), 1));
  EXPECT_EQ(a->session_memory().info().progress[5].load(), 0u);
}

TEST_F(PutGet, DeletedPagesAreMissesAndCanBePutAgain) {
  auto a = engine();
  fill_page(a->block(0), 1);
  ASSERT_EQ(a->wait(a->put({}, {1}, a->layout, {0})).items[0], Code::kOk);
  const std::vector<std::byte> key = key_of(1);
  const uint64_t request = a->send(RecordType::kDelete, DeleteRequest{a->space, {Bytes(key), 32}});
  EXPECT_EQ(a->wait(request).items[0], Code::kOk);
  EXPECT_EQ(a->wait(a->lookup({}, {1})).head.value, 0u);
  EXPECT_EQ(a->wait(a->put({}, {1}, a->layout, {0})).items[0], Code::kOk);
}

// O11-12
TEST_F(PutGet, ClearIsAMissForAllAndEndsOtherSessionsAttach) {
  auto a = engine(), b = engine();
  fill_page(a->block(0), 1);
  ASSERT_EQ(a->wait(a->put({}, {1}, a->layout, {0})).items[0], Code::kOk);
  const Answer cleared = a->wait(a->send(RecordType::kClear, ClearRequest{a->space, {}}));
  EXPECT_EQ(cleared.status(), Code::kOk);
  EXPECT_EQ(cleared.head.value, 2u);
  EXPECT_EQ(remains_.namespaces.records.begin()->second.generation,
            2u);  // on disk before the answer
  EXPECT_EQ(a->wait(a->lookup({}, {1})).head.value, 0u);
  EXPECT_EQ(b->wait(b->put({}, {1}, b->layout, {0})).status(), Code::kStaleNamespace);
  fill_page(a->block(0), 1, 0, 1);
  EXPECT_EQ(a->wait(a->put({}, {1}, a->layout, {0})).items[0], Code::kOk);
}

TEST_F(PutGet, TheCountersAddUp) {
  auto a = engine();
  fill_page(a->block(0), 1);
  a->wait(a->put({}, {1, 1, 2}, a->layout, {0, 0, 0}));
  a->wait(a->lookup({}, {1, 2, 3}));
  a->wait(a->get({}, {1, 9}, a->layout, {4, 5}));
  const Counters& c = node_.conductor().counters();
  EXPECT_EQ(c.pages_looked_up.value(), c.pages_found_host.value() + c.pages_found_store.value() +
                                           c.pages_found_remote.value() +
                                           c.pages_found_miss.value());
  EXPECT_EQ(c.pages_put.value(), c.pages_put_stored.value() + c.pages_put_exists.value() +
                                     c.pages_put_refused.value() + c.pages_put_failed.value() +
                                     c.pages_put_abandoned.value());
  EXPECT_EQ(c.pages_get.value(), c.pages_get_host.value() + c.pages_get_store.value() +
                                     c.pages_get_miss.value() + c.pages_get_failed.value());
  EXPECT_EQ(c.pages_looked_up.value(), 3u);
  EXPECT_EQ(c.pages_put.value(), 3u);
  EXPECT_EQ(c.pages_get.value(), 2u);
}

}  // namespace
}  // namespace kvsidecar::testing
