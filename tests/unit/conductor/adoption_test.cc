// SPDX-License-Identifier: Apache-2.0
// Goal: the next daemon finds the warm pool, trusts none of it unproved, and touches nothing that a
// predecessor's I/O may still reach. Method: two daemons one after the other over the same memory.
#include "tests/unit/conductor/rig.h"

namespace kvsidecar::testing {
namespace {

class Adoption : public Rig {
 protected:
  Adoption() { with_store = false; }
};

TEST_F(Adoption, FullSlotsAreFoundAgainAndCheckedAtTheirFirstGet) {
  start();
  auto a = engine();
  for (uint64_t key = 1; key <= 3; ++key) ASSERT_EQ(put(*a, key), Code::kOk);
  a.reset();
  stop();
  start();
  EXPECT_EQ(count(&Counters::pages_adopted), 3u);
  a = engine();
  EXPECT_EQ(count(&Counters::pages_verified), 0u);  // costs nothing at start
  for (uint64_t key = 1; key <= 3; ++key) {
    EXPECT_EQ(place(*a, key), Place::kHost);
    EXPECT_EQ(get(*a, key), Code::kOk);
    EXPECT_TRUE(holds_page(a->block(1), key));
  }
  EXPECT_EQ(get(*a, 1), Code::kOk);
  EXPECT_EQ(count(&Counters::pages_verified), 3u);  // each once
}

TEST_F(Adoption, ARottenPageIsAMissOfItselfAlone) {
  start();
  auto a = engine();
  ASSERT_EQ(put(*a, 1), Code::kOk);
  ASSERT_EQ(put(*a, 2), Code::kOk);
  a.reset();
  stop();
  rot(1);
  start();
  a = engine();
  fill_page(a->block(1), 77);
  EXPECT_EQ(get(*a, 1), Code::kCorrupt);
  EXPECT_TRUE(holds_page(a->block(1), 77));
  EXPECT_EQ(place(*a, 1), Place::kMiss);
  EXPECT_EQ(get(*a, 2), Code::kOk);
  EXPECT_EQ(put(*a, 1), Code::kOk);  // and may be put again
}

TEST_F(Adoption, ARottenPageThatIsAlsoStoredIsReadFromTheStoreNext) {
  with_store = true;
  start();
  auto a = engine();
  ASSERT_EQ(put(*a, 1), Code::kOk);
  ASSERT_TRUE(node->settle());
  a.reset();
  stop();
  rot(1);
  start();
  a = engine();
  EXPECT_EQ(get(*a, 1), Code::kCorrupt);
  EXPECT_EQ(place(*a, 1), Place::kStore);
  EXPECT_EQ(get(*a, 1), Code::kOk);
  EXPECT_TRUE(holds_page(a->block(1), 1));
}

TEST_F(Adoption, PagesOfAClearedGenerationGiveTheirSlotsBack) {
  start();
  auto a = engine();
  ASSERT_EQ(put(*a, 1), Code::kOk);
  a->wait(a->send(RecordType::kClear, ClearRequest{a->space, {}}));
  ASSERT_EQ(put(*a, 2), Code::kOk);
  a.reset();
  stop();
  start();
  EXPECT_EQ(count(&Counters::pages_adopted), 1u);
  EXPECT_EQ(node->pool().usage().slots_full, 1u);
  a = engine();
  EXPECT_EQ(place(*a, 1), Place::kMiss);
  EXPECT_EQ(place(*a, 2), Place::kHost);
}

TEST_F(Adoption, PagesOfAnUnknownNamespaceGiveTheirSlotsBack) {
  start();
  auto a = engine();
  ASSERT_EQ(put(*a, 1), Code::kOk);
  a.reset();
  stop();
  remains.namespaces.records.clear();
  start();
  EXPECT_EQ(count(&Counters::pages_adopted), 0u);
  EXPECT_EQ(node->pool().usage().slots_full, 0u);
}

TEST_F(Adoption, HalfFilledSlotsStayInQuarantineUntilThePredecessorIsGone) {
  const NamespaceFields fields = fields_of(kPage, 2);
  start();
  auto a = engine(fields);
  fill_page(a->block(0), 1);
  ASSERT_EQ(a->wait(a->put({}, {1}, a->layout, {0})).items[0], Code::kOkPart);
  a.reset();
  stop();
  start();
  EXPECT_EQ(node->pool().usage().slots_quarantined, 1u);
  a = engine(fields);
  EXPECT_EQ(place(*a, 1), Place::kMiss);
  for (uint64_t key = 100; key < 140; ++key) a->wait(a->put({}, {key}, a->layout, {0}));
  EXPECT_EQ(node->pool().usage().slots_quarantined, 1u);  // not even when the pool is full
  node->conductor().predecessor_gone();
  EXPECT_EQ(node->pool().usage().slots_quarantined, 0u);
}

TEST_F(Adoption, AnAdoptedPageMeetsItsCopyInTheStore) {
  with_store = true;
  start();
  auto a = engine();
  ASSERT_EQ(put(*a, 1), Code::kOk);
  ASSERT_TRUE(node->settle());
  a.reset();
  stop();
  start();
  EXPECT_EQ(count(&Counters::pages_adopted), 1u);
  EXPECT_EQ(count(&Counters::pages_scanned), 1u);
  a = engine();
  EXPECT_EQ(node->conductor().gauges().pages_indexed, 1u);
  evict(*a, 1);
  EXPECT_EQ(place(*a, 1), Place::kStore);
  EXPECT_EQ(get(*a, 1), Code::kOk);
  EXPECT_TRUE(holds_page(a->block(1), 1));
}

TEST_F(Adoption, VerifyFirstChecksThePagesOfThisEpochToo) {
  options.limits.verify = Verify::kFirst;
  start();
  auto a = engine();
  ASSERT_EQ(put(*a, 1), Code::kOk);
  rot(1);  // the memory itself goes bad
  EXPECT_EQ(get(*a, 1), Code::kCorrupt);
  EXPECT_EQ(place(*a, 1), Place::kMiss);
}

TEST_F(Adoption, ADescriptionThatDoesntFitTheFirstWritersSlotIsLeftOut) {
  const NamespaceFields fields = fields_of(kPage, 2);
  start();
  AttachRequest second;
  second.coordinate.tp = 1;
  second.description_bytes_max = 8192;
  auto rank0 = engine(fields), rank1 = engine(fields, second);
  fill_page(rank0->block(0), 1, 0);
  fill_page(rank1->block(0), 1, 1);
  ASSERT_EQ(rank0->wait(rank0->put({}, {1}, rank0->layout, {0})).items[0], Code::kOkPart);
  const std::vector<std::byte> description(8000);
  const uint32_t end = 8000;
  PutRequest put;
  put.descriptions = description;
  put.description_ends = {&end, 1};
  EXPECT_EQ(rank1->wait(rank1->put(put, {1}, rank1->layout, {0})).items[0], Code::kOk);
  EXPECT_EQ(place(*rank0, 1), Place::kHost);
}

}  // namespace
}  // namespace kvsidecar::testing
