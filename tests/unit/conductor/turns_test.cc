// SPDX-License-Identifier: Apache-2.0
// Goal: no session waits for another's large requests, an unfinished lookup ends at its deadline,
// and more pages to check than the hash workers' queue holds wait instead of failing. Method: turns
// of the conductor are counted, not time.
#include "sidecar/conductor/world.h"
#include "tests/unit/conductor/rig.h"

namespace kvsidecar::testing {
namespace {

class Turns : public Rig {
 protected:
  Turns() { with_store = false; }
  static std::vector<uint64_t> keys(uint64_t first, size_t count) {
    std::vector<uint64_t> all(count);
    for (size_t i = 0; i < count; ++i) all[i] = first + i;
    return all;
  }
  bool answered(Engine& e, uint64_t request) { return e.answer(request).has_value(); }
  // One record of a lookup of `total` keys.
  uint64_t part_of_lookup(Engine& e, uint32_t offset, uint32_t count, uint32_t total,
                          uint64_t request = 0) {
    std::vector<std::byte> bytes;
    for (const uint64_t key : keys(offset, count)) {
      const std::vector<std::byte> one = key_of(key);
      bytes.insert(bytes.end(), one.begin(), one.end());
    }
    const PoolPolicy pool{e.space, HitPolicy::kAllPages, 0};
    LookupRequest lookup;
    lookup.keys = {Bytes(bytes), 32};
    lookup.offset = offset;
    lookup.total = total;
    lookup.pools = {&pool, 1};
    Encoded record;
    encode(lookup, record);
    return e.send_record(RecordType::kLookup, record, request);
  }
};

TEST_F(Turns, ASmallRequestWaitsForOneLargeOneOfEachOtherSession) {
  start();
  auto small = engine();
  std::vector<std::unique_ptr<Engine>> large;
  for (int i = 0; i < 3; ++i) large.push_back(engine());
  auto last = engine();  // whether its turn is first or last
  std::vector<std::vector<uint64_t>> requests(large.size());
  for (size_t i = 0; i < large.size(); ++i)
    for (int n = 0; n < 4; ++n) requests[i].push_back(large[i]->lookup({}, keys(0, 1900)));
  for (Engine* e : {small.get(), last.get()}) {
    const uint64_t request = e->lookup({}, {1});
    node->conductor().step();
    EXPECT_TRUE(answered(*e, request));
  }
  for (size_t i = 0; i < large.size(); ++i) {
    size_t done = 0;
    for (const uint64_t request : requests[i]) done += answered(*large[i], request) ? 1 : 0;
    EXPECT_EQ(done, 2u) << "one in each turn";
  }
}

TEST_F(Turns, ATurnTakesOneLargeRequestOrSixteenSmallOnes) {
  start();
  auto e = engine();
  std::vector<uint64_t> large, small;
  for (int i = 0; i < 3; ++i) large.push_back(e->lookup({}, keys(0, 1900)));
  for (size_t turn = 0; turn < large.size(); ++turn) {
    node->conductor().step();
    for (size_t i = 0; i < large.size(); ++i) EXPECT_EQ(answered(*e, large[i]), i <= turn);
  }
  for (int i = 0; i < 20; ++i) small.push_back(e->lookup({}, {1}));
  node->conductor().step();
  for (size_t i = 0; i < small.size(); ++i) EXPECT_EQ(answered(*e, small[i]), i < 16) << i;
}

// What lookups have used is told to eviction afterwards, and all that still waits by the next put.
TEST_F(Turns, WhatManyShortLookupsHaveUsedDoesntPileUp) {
  start();
  auto e = engine();
  ASSERT_EQ(put(*e, 1), Code::kOk);
  for (int turn = 0; turn < 100; ++turn) {
    std::vector<uint64_t> requests;
    for (int i = 0; i < 16; ++i) requests.push_back(e->lookup({}, {1}));
    node->conductor().step();
    for (const uint64_t request : requests) ASSERT_TRUE(answered(*e, request));
  }
  EXPECT_LE(node->conductor().world().uses.pages, 64u);
}

// However many sessions ask at once, the conductor itself copies one small piece a turn.
TEST_F(Turns, SmallCopiesOfManySessionsGoToTheCopyWorkers) {
  options.inline_copies = true;
  options.limits.inline_copy_bytes = 2 * kPage;
  start();
  std::vector<std::unique_ptr<Engine>> engines;
  for (int i = 0; i < 5; ++i) engines.push_back(engine());
  std::vector<uint64_t> requests;
  for (size_t i = 0; i < engines.size(); ++i) requests.push_back(begin_put(*engines[i], i));
  node->conductor().step();
  size_t at_once = 0;
  for (size_t i = 0; i < engines.size(); ++i) at_once += answered(*engines[i], requests[i]) ? 1 : 0;
  EXPECT_EQ(at_once, 2u);
  ASSERT_TRUE(node->settle());
  for (size_t i = 0; i < engines.size(); ++i) {
    const std::optional<Answer> answer = engines[i]->answer(requests[i]);
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->items[0], Code::kOk);
    EXPECT_TRUE(holds_page(engines[i]->block(0), i));
  }
}

// A record of 2 KiB may name as many pages as one of 64 KiB.
TEST_F(Turns, ShortKeysBuyNoMorePagesThanLongOnes) {
  start();
  auto e = engine();
  std::vector<std::byte> bytes(1900);
  const PoolPolicy pool{e->space, HitPolicy::kAllPages, 0};
  LookupRequest lookup;
  lookup.keys = {Bytes(bytes), 1};
  lookup.total = static_cast<uint32_t>(bytes.size());
  lookup.pools = {&pool, 1};
  auto other = engine();
  for (const bool erased : {false, true}) {
    ASSERT_TRUE(node->settle());
    std::vector<uint64_t> requests;
    for (int i = 0; i < 4; ++i)
      requests.push_back(
          erased ? e->send(RecordType::kDelete, DeleteRequest{e->space, {Bytes(bytes), 1}})
                 : e->send(RecordType::kLookup, lookup));
    size_t turns = 0;
    for (; turns < 100 && !answered(*e, requests.back()); ++turns) {
      const uint64_t small = other->lookup({}, {1});
      node->conductor().step();
      EXPECT_TRUE(answered(*other, small));
    }
    EXPECT_GE(turns, 6u) << "each costs two turns";
    EXPECT_LE(turns, 9u);
  }
}

TEST_F(Turns, ALookupWhoseLastRecordDoesntComeEndsAtItsDeadline) {
  start();
  auto e = engine();
  const uint64_t request = part_of_lookup(*e, 0, 100, 250);
  ASSERT_TRUE(node->settle());
  part_of_lookup(*e, 100, 100, 250, request);
  ASSERT_TRUE(node->settle());
  EXPECT_FALSE(answered(*e, request));
  EXPECT_LE(node->conductor().next_deadline_ns(), clock.now_ns() + e->timeout_ns);
  clock.advance_ns(2 * e->timeout_ns);
  ASSERT_TRUE(node->settle());
  const Answer answer = e->wait(request);
  EXPECT_EQ(answer.status(), Code::kTimeout);
  EXPECT_NE(answer.text.find("200"), std::string::npos) << answer.text;
  EXPECT_NE(answer.text.find("250"), std::string::npos) << answer.text;
  const World& world = node->conductor().world();
  EXPECT_FALSE(world.sessions.at(e->session())->lookup.has_value());
  // What comes too late is passed over, and its completion cell is free again.
  for (int i = 0; i < 40; ++i) {
    part_of_lookup(*e, 200, 50, 250, request);
    ASSERT_TRUE(node->settle());
  }
  EXPECT_TRUE(node->conductor().session_alive(e->session()));
  EXPECT_EQ(put(*e, 1), Code::kOk);
  EXPECT_EQ(place(*e, 1), Place::kHost);
}

TEST_F(Turns, ARefusedLookupsFurtherRecordsDontEndTheSession) {
  start();
  auto e = engine();
  e->timeout_ns = Limits{}.deadline_max_ns + 5'000'000'000;
  const uint64_t request = part_of_lookup(*e, 0, 100, 250);
  part_of_lookup(*e, 100, 100, 250, request);
  part_of_lookup(*e, 200, 50, 250, request);
  EXPECT_EQ(e->wait(request).status(), Code::kInvalid);
  e->timeout_ns = 1'000'000'000;
  EXPECT_EQ(put(*e, 1), Code::kOk);
}

class ManyChecks : public Turns {
 protected:
  static constexpr size_t kPages = 40;
  // Pages that a predecessor left: each is checked at its first get.
  void SetUp() override {
    options.pool_bytes = 8 << 20;
    options.queue_entries = 4;  // of the hash worker, too
    start();
    {
      auto e = small_engine();
      for (uint64_t key = 0; key < kPages; ++key) ASSERT_EQ(put(*e, key), Code::kOk);
    }
    stop();
    start();
  }
  std::unique_ptr<Engine> small_engine() {
    auto e = std::make_unique<Engine>(*node, clock, 4ull << 20);
    e->set_up(fields_of(kPage), kPages);
    return e;
  }
  uint64_t get_all(Engine& e) {
    std::vector<uint32_t> blocks(kPages);
    for (uint32_t i = 0; i < kPages; ++i) blocks[i] = i;
    return e.get({}, keys(0, kPages), e.layout, blocks);
  }
};

TEST_F(ManyChecks, PagesBeyondTheQueueWaitForTheirTurn) {
  auto e = small_engine();
  const Answer answer = e->wait(get_all(*e));
  ASSERT_EQ(answer.items.size(), kPages);
  for (size_t i = 0; i < kPages; ++i) {
    EXPECT_EQ(answer.items[i], Code::kOk) << i;
    EXPECT_TRUE(holds_page(e->block(static_cast<uint32_t>(i)), i));
  }
  EXPECT_EQ(count(&Counters::pages_verified), kPages);
}

TEST_F(ManyChecks, TheirDeadlineEndsTheWaitAndNothingIsLeft) {
  auto e = small_engine();
  const uint64_t request = get_all(*e);
  for (int i = 0; i < 10; ++i) node->conductor().step();  // no worker turns
  clock.advance_ns(2 * e->timeout_ns);
  node->conductor().step();
  ASSERT_TRUE(answered(*e, request));
  const Answer late = *e->answer(request);
  for (const Code code : late.items) EXPECT_EQ(code, Code::kTimeout);
  ASSERT_TRUE(node->settle());
  EXPECT_TRUE(node->conductor().world().fetches.empty());
  EXPECT_LT(count(&Counters::pages_verified), 10u) << "nobody waited for the others";
  const Answer again = e->wait(get_all(*e));
  for (const Code code : again.items) EXPECT_EQ(code, Code::kOk);
}

class StalledStore : public Turns {
 protected:
  StalledStore() { with_store = true; }
};

TEST_F(StalledStore, GetsThatAreCancelledLeaveNothingBehind) {
  start();
  auto e = engine();
  ASSERT_EQ(put(*e, 1), Code::kOk);
  ASSERT_TRUE(node->settle());
  evict(*e, 1);
  ASSERT_TRUE(node->settle());
  set_store_faults({.held = true});
  for (int i = 0; i < 1000; ++i) {
    const uint64_t request = e->get({}, {1}, e->layout, {1});
    e->wait(e->send(RecordType::kCancel, CancelRequest{request}));
    ASSERT_TRUE(answered(*e, request));
  }
  const World& world = node->conductor().world();
  ASSERT_EQ(world.fetches.size(), 1u);
  EXPECT_LE(world.fetches.begin()->second->waiters.size(), 64u);
  const uint64_t last = e->get({}, {1}, e->layout, {1});
  set_store_faults({});
  EXPECT_EQ(e->wait(last).items[0], Code::kOk) << "who still waits is served";
}

TEST_F(Turns, AnAttachAndAClearEndAtTheirDeadlineThoughTheDiskHangs) {
  start();
  auto e = engine();
  const uint64_t attach = e->attach(fields_of(2 * kPage));
  const uint64_t clear = e->send(RecordType::kClear, ClearRequest{e->space, {}});
  node->conductor().step();  // no reaper turns
  clock.advance_ns(2 * e->timeout_ns);
  node->conductor().step();
  for (const uint64_t request : {attach, clear}) {
    ASSERT_TRUE(answered(*e, request));
    EXPECT_EQ(e->answer(request)->status(), Code::kTimeout);
    EXPECT_NE(e->answer(request)->text.find("state_dir"), std::string::npos);
  }
  const Handle space = e->space;
  e->die();
  ASSERT_TRUE(node->settle());  // they come back to a session that is gone
  auto next = engine();
  EXPECT_NE(next->space, space);
  EXPECT_EQ(put(*next, 1), Code::kOk);
}

}  // namespace
}  // namespace kvsidecar::testing
