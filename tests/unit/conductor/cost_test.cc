// SPDX-License-Identifier: Apache-2.0
// Goal: what a request costs doesn't depend on what else is stored or going on. Method: turns of
// the conductor, commands to the store and counts are counted; no time is taken.
#include <random>
#include <set>

#include "tests/unit/conductor/rig.h"

namespace kvsidecar::testing {
namespace {

class Cost : public Rig {
 protected:
  static std::vector<uint64_t> keys(uint64_t first, size_t count) {
    std::vector<uint64_t> all(count);
    for (size_t i = 0; i < count; ++i) all[i] = first + i;
    return all;
  }
  static std::vector<uint32_t> blocks(size_t count) {
    std::vector<uint32_t> all(count);
    for (size_t i = 0; i < count; ++i) all[i] = static_cast<uint32_t>(i);
    return all;
  }
};

// O8-04: existence is answered from memory; no file is listed, looked at or read.
TEST_F(Cost, ALookupAsksTheStoreNothing) {
  start();
  auto e = engine();
  for (uint64_t key = 0; key < 8; ++key) ASSERT_TRUE(is_success(put(*e, key)));
  ASSERT_TRUE(node->settle());
  evict(*e, 0);
  ASSERT_TRUE(node->settle());
  ASSERT_EQ(place(*e, 0), Place::kStore);
  const size_t asked = spy->ops.size();
  for (int i = 0; i < 10; ++i) {
    const Answer found = e->wait(e->lookup({}, keys(0, 1000)));
    EXPECT_EQ(found.places[0], static_cast<uint8_t>(Place::kStore));
    EXPECT_EQ(found.places[999], static_cast<uint8_t>(Place::kMiss));
    ASSERT_TRUE(node->settle());
  }
  EXPECT_EQ(spy->ops.size(), asked);
}

// O8-05: no lock is waited for, however much is evicted meanwhile: each turn answers each session.
TEST_F(Cost, ALookupOfManyKeysTakesOneTurnWhileEveryPutEvicts) {
  with_store = false;
  start();
  auto writer = engine(), reader = engine();
  for (uint64_t round = 0; round < 10; ++round) {
    const uint64_t put = writer->put({}, keys(1000 + round * 8, 8), writer->layout, blocks(8));
    for (int turn = 0; turn < 4; ++turn) {
      const uint64_t request = reader->lookup({}, keys(0, 1900));
      node->conductor().step();
      EXPECT_TRUE(reader->answer(request).has_value()) << "round " << round << ", turn " << turn;
      node->step();
    }
    (void)writer->wait(put);
  }
  EXPECT_GT(count(&Counters::pages_evicted), 0u) << "nothing was evicted";
}

// O8-09: what is surely in memory is a hit, whoever writes at the same time.
TEST_F(Cost, HotPagesAreNeverAMissWhileFourEnginesWrite) {
  with_store = false;
  start();
  auto reader = engine();
  std::vector<std::unique_ptr<Engine>> writers;
  for (int i = 0; i < 4; ++i) writers.push_back(engine());
  const std::vector<uint64_t> hot = keys(0, 4);
  for (const uint64_t key : hot) ASSERT_EQ(put(*reader, key), Code::kOk);
  for (int i = 0; i < 20; ++i) ASSERT_EQ(reader->wait(reader->lookup({}, hot)).head.value, 4u);
  uint64_t next = 1000;
  for (int round = 0; round < 50; ++round) {
    std::vector<uint64_t> puts;
    for (auto& writer : writers) {
      puts.push_back(writer->put({}, {next}, writer->layout, {0}));
      ++next;
    }
    ASSERT_EQ(reader->wait(reader->lookup({}, hot)).head.value, 4u) << "round " << round;
    const Answer got = reader->wait(reader->get({}, hot, reader->layout, {4, 5, 6, 7}));
    EXPECT_EQ(got.items, std::vector<Code>(4, Code::kOk)) << "round " << round;
    for (size_t i = 0; i < writers.size(); ++i) (void)writers[i]->wait(puts[i]);
  }
  EXPECT_GT(count(&Counters::pages_evicted), 0u) << "the writers evicted nothing";
}

// O8-06: memory that is still being reserved is no reason to wait: the daemon answers, and uses
// what is there.
TEST_F(Cost, ADaemonServesBeforeItsMemoryIsThere) {
  with_store = false;
  options.pool_bytes = options.span_bytes;
  start();
  auto e = engine();
  std::vector<std::byte> late((1 << 20) + 4096);
  for (uint64_t key = 0; key < 12; ++key) EXPECT_EQ(put(*e, key), Code::kOk);
  EXPECT_EQ(place(*e, 11), Place::kHost);
  const uint64_t before = node->pool().usage().bytes;
  auto* const begin =
      reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(late.data()) + 4095) / 4096 * 4096);
  node->conductor().add_chunk({begin, 1 << 20}, false);
  for (uint64_t key = 20; key < 32; ++key) EXPECT_EQ(put(*e, key), Code::kOk);
  EXPECT_EQ(node->pool().usage().bytes, before + (1 << 20));
  for (uint64_t key = 20; key < 32; ++key) EXPECT_EQ(place(*e, key), Place::kHost) << key;
  e.reset();
  stop();
}

// O8-12: what an account costs doesn't grow with the pages: it is kept as they change, and equals
// what a full audit finds.
TEST_F(Cost, TheAccountEqualsAnAuditAfterRandomUse) {
  with_store = false;
  start();
  auto e = engine();
  std::mt19937 dice(3);
  for (int step = 0; step < 400; ++step) {
    const uint64_t key = dice() % 40;
    if (dice() % 3 == 0)
      (void)erase(*e, key);
    else
      ASSERT_TRUE(is_success(put(*e, key)));
    if (step % 20 != 19) continue;
    ASSERT_TRUE(node->settle());
    uint64_t there = 0;
    for (const uint8_t found : e->wait(e->lookup({}, keys(0, 40))).places)
      there += found == static_cast<uint8_t>(Place::kHost) ? 1 : 0;
    const Gauges account = node->conductor().gauges();
    EXPECT_EQ(account.pages_indexed, there) << "step " << step;
    EXPECT_EQ(account.pool.slots_full, there) << "step " << step;
    EXPECT_EQ(account.pool.page_bytes, there * kPage) << "step " << step;
  }
}

}  // namespace
}  // namespace kvsidecar::testing
