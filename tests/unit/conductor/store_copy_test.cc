// SPDX-License-Identifier: Apache-2.0
// Goal: a page's copy in the store goes when it must: one that can't be read is promised to nobody
// any more, and a daemon doesn't end before its tombstones are written.
// Method: a node over a store in memory that fails or holds what it is told; a successor has the
// store, not the pool.
#include <gtest/gtest.h>

#include "sidecar/store/memory_store.h"
#include "tests/support/engine.h"

namespace kvsidecar::testing {
namespace {

constexpr uint64_t kPage = 64 * 1024;

class StoreCopy : public ::testing::Test {
 protected:
  // A daemon with an empty pool over the store as it is now.
  void start() {
    engine_.reset();
    node_.reset();
    remains_ = NodeRemains{};
    store_ = std::make_unique<MemoryStore>(disk_, MemoryStore::Options{}, random_);
    NodeOptions options;
    options.store = store_.get();
    options.limits.store_capacity_bytes = 64ull << 20;
    options.epoch = ++epoch_;
    node_ = std::make_unique<Node>(options, remains_, clock_, random_);
    node_->conductor().scan_store();
    ASSERT_TRUE(node_->settle());
    engine_ = std::make_unique<Engine>(*node_, clock_, 4ull << 20);
    engine_->set_up(fields_of(kPage), 16);
  }
  Answer put_durably() {
    fill_page(engine_->block(0), 1);
    PutRequest put;
    put.durable = true;
    return engine_->wait(engine_->put(put, {1}, engine_->layout, {0}));
  }
  Place place() {
    return static_cast<Place>(engine_->wait(engine_->lookup({}, {1})).places.at(0));
  }
  Code get() { return engine_->wait(engine_->get({}, {1}, engine_->layout, {3})).items.at(0); }

  FakeClock clock_;
  SeededRandom random_{1};
  std::shared_ptr<MemoryDisk> disk_ = std::make_shared<MemoryDisk>();
  NodeRemains remains_;
  std::unique_ptr<MemoryStore> store_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<Engine> engine_;
  uint64_t epoch_ = 0;
};

// O5-13: a page that can't be read is forgotten, however often it was looked up.
TEST_F(StoreCopy, AnUnreadableOneIsAMissAfterItsErrorAndCanBePutAgain) {
  start();
  ASSERT_EQ(put_durably().items.at(0), Code::kOk);
  start();
  ASSERT_EQ(place(), Place::kStore);
  MemoryFaults faults;
  faults.read_fails = 1000;
  store_->set_faults(faults);
  EXPECT_EQ(get(), Code::kIoError);
  EXPECT_EQ(place(), Place::kMiss);
  EXPECT_EQ(get(), Code::kMiss);
  store_->set_faults({});
  EXPECT_EQ(put_durably().items.at(0), Code::kOk);
  EXPECT_EQ(get(), Code::kOk);
  EXPECT_TRUE(holds_page(engine_->block(3), 1));
}

TEST_F(StoreCopy, TheDaemonDrainsUntilADeletedPagesTombstoneIsWritten) {
  start();
  ASSERT_EQ(put_durably().items.at(0), Code::kOk);
  MemoryFaults faults;
  faults.held = true;
  store_->set_faults(faults);
  const std::vector<std::byte> key = key_of(1);
  const uint64_t request =
      engine_->send(RecordType::kDelete, DeleteRequest{engine_->space, {Bytes(key), 32}});
  EXPECT_EQ(engine_->wait(request).items.at(0), Code::kOk);
  engine_->die();
  ASSERT_TRUE(node_->settle());
  EXPECT_FALSE(node_->conductor().drained());
  EXPECT_FALSE(node_->conductor().quiet());
  store_->set_faults({});
  ASSERT_TRUE(node_->settle());
  EXPECT_TRUE(node_->conductor().drained());
  EXPECT_TRUE(node_->conductor().quiet());
  start();
  EXPECT_EQ(place(), Place::kMiss);
}

}  // namespace
}  // namespace kvsidecar::testing
