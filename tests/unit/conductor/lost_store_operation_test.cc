// SPDX-License-Identifier: Apache-2.0
// Goal: a store operation that never ends keeps nothing of the engine that asked for it.
// Method: a store that holds what it has while the deadline passes; then the region is
// unregistered, or its session dies.
#include "sidecar/conductor/world.h"
#include "tests/unit/conductor/rig.h"

namespace kvsidecar::testing {
namespace {

class LostStoreOperation : public Rig {
 protected:
  void begin_lost_read(Engine& e) {
    ASSERT_EQ(put(e, 1), Code::kOk);
    ASSERT_TRUE(node->settle());
    evict(e, 1);
    ASSERT_TRUE(node->settle());
    set_store_faults({.held = true});
    const uint64_t request = e.get({}, {1}, e.layout, {1});
    ASSERT_TRUE(node->settle());
    ASSERT_EQ(spy->store.in_flight(), 1u);
    clock.advance_ns(2 * e.timeout_ns);
    ASSERT_EQ(e.wait(request).items[0], Code::kTimeout);
  }
  std::optional<Answer> unregister(Engine& e) {
    const uint64_t request = e.send(RecordType::kUnregister, UnregisterRequest{e.region});
    EXPECT_TRUE(node->settle());
    return e.answer(request);
  }
};

TEST_F(LostStoreOperation, ARegionIsUnregisteredUnderAReadThatNeverEnds) {
  start();
  auto a = engine();
  begin_lost_read(*a);
  const std::optional<Answer> answer = unregister(*a);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->status(), Code::kOk);
  EXPECT_EQ(spy->store.in_flight(), 1u);
}

TEST_F(LostStoreOperation, ARegionIsUnregisteredUnderADurableWriteThatNeverEnds) {
  start();
  auto a = engine();
  set_store_faults({.held = true});
  const uint64_t request = begin_put(*a, 1, true);
  ASSERT_TRUE(node->settle());
  clock.advance_ns(2 * a->timeout_ns);
  ASSERT_EQ(a->wait(request).items[0], Code::kNotStored);
  const std::optional<Answer> answer = unregister(*a);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->status(), Code::kOk);
  EXPECT_EQ(spy->store.in_flight(), 1u);
}

TEST_F(LostStoreOperation, ADeadSessionsMemoryIsClosedUnderAReadThatNeverEnds) {
  start();
  auto a = engine();
  begin_lost_read(*a);
  a->die();
  ASSERT_TRUE(node->settle());
  EXPECT_EQ(node->conductor().gauges().sessions, 0u);
  for (const auto& [number, account] : node->conductor().world().accounts)
    EXPECT_EQ(account.region_bytes, 0u);
  EXPECT_EQ(spy->store.in_flight(), 1u);
}

}  // namespace
}  // namespace kvsidecar::testing
