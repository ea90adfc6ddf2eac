// SPDX-License-Identifier: Apache-2.0
// Goal: the faults of MemoryStore are those that its header promises, and one seed gives one run.
// Method: each fault alone, then two runs compared.
#include "sidecar/store/memory_store.h"

#include "tests/conformance/store/store_subject.h"

namespace kvsidecar {
namespace {

class SeededRandom final : public Random {
 public:
  explicit SeededRandom(uint64_t seed) : state_(seed) {}
  uint64_t next() override {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return state_ >> 11;
  }

 private:
  uint64_t state_;
};

class MemoryStoreTest : public ::testing::Test {
 protected:
  void open() {
    driver_.reset();
    auto store = std::make_unique<MemoryStore>(disk_, MemoryStore::Options{}, random_);
    store_ = store.get();
    driver_ = std::make_unique<StoreDriver>(std::move(store));
  }
  std::shared_ptr<MemoryDisk> disk_ = std::make_shared<MemoryDisk>();
  SeededRandom random_{1};
  std::unique_ptr<NamespaceInfo> space_ = make_namespace("m", 5000);
  TestPage page_{*space_, 1, 1};
  PageMemory memory_ = page_memory(5000);
  MemoryStore* store_ = nullptr;
  std::unique_ptr<StoreDriver> driver_;
};

TEST_F(MemoryStoreTest, FaultsAreReportedAsTheyAreInRealStores) {
  open();
  const StoreLocation at = driver_->write(page_).location;
  store_->set_faults({.write_fails = 1000});
  EXPECT_EQ(driver_->write(page_).status, Code::kNotStored);
  store_->set_faults({.full = true});
  EXPECT_EQ(driver_->write(page_).status, Code::kNotStored);
  store_->set_faults({.read_fails = 1000});
  EXPECT_EQ(driver_->read(at, 5000, memory_.get()).status, Code::kIoError);
  EXPECT_FALSE(page_.same_bytes(memory_.get()));
  store_->set_faults({.read_corrupt = 1000});
  EXPECT_EQ(driver_->read(at, 5000, memory_.get()).status, Code::kOk);
  EXPECT_FALSE(page_.same_bytes(memory_.get()));
  store_->set_faults({.delete_fails = 1000});
  EXPECT_EQ(driver_->erase(at), Code::kIoError);
  store_->set_faults({});
  EXPECT_EQ(driver_->read(at, 5000, memory_.get()).status, Code::kOk);
  EXPECT_TRUE(page_.same_bytes(memory_.get()));
}

TEST_F(MemoryStoreTest, WhatIsHeldCompletesOnlyWhenReleasedAndTouchesMemoryOnlyThen) {
  open();
  const StoreLocation at = driver_->write(page_).location;
  store_->set_faults({.held = true});
  StoreCommand read;
  read.op = StoreOp::kRead;
  read.token = 5;
  read.location = at;
  read.page = memory_.get();
  read.page_bytes = 5000;
  ASSERT_TRUE(store_->submit(std::move(read)));
  StoreDone done;
  for (int i = 0; i < 100; ++i) {
    store_->step();
    ASSERT_FALSE(store_->poll(done));
  }
  EXPECT_FALSE(store_->must_poll());
  EXPECT_EQ(memory_.get()[0], std::byte{0xee});
  store_->set_faults({});
  EXPECT_EQ(driver_->next().token, 5u);
  EXPECT_TRUE(page_.same_bytes(memory_.get()));
}

TEST_F(MemoryStoreTest, ACrashLosesOnlyWhatWasNotDurable) {
  open();
  std::vector<std::unique_ptr<TestPage>> pages;
  for (uint64_t i = 0; i < 200; ++i) {
    pages.push_back(std::make_unique<TestPage>(*space_, 1, i));
    ASSERT_EQ(driver_->write(*pages.back(), i % 2 == 0).status, Code::kOk);
  }
  driver_.reset();
  disk_->crash(random_);
  EXPECT_GE(disk_->pages(), 100u);
  EXPECT_LT(disk_->pages(), 200u);
  open();
  size_t durable = 0;
  for (const auto& segment : driver_->scan())
    for (const FoundPage& found : segment->pages)
      for (size_t i = 0; i < 200; i += 2) durable += pages[i]->record->hash == found.hash ? 1 : 0;
  EXPECT_EQ(durable, 100u);
}

TEST_F(MemoryStoreTest, AFlushMakesWhatWasWrittenDurable) {
  open();
  for (uint64_t i = 0; i < 50; ++i)
    ASSERT_EQ(driver_->write(TestPage(*space_, 1, i)).status, Code::kOk);
  ASSERT_EQ(driver_->flush(), Code::kOk);
  disk_->crash(random_);
  EXPECT_EQ(disk_->pages(), 50u);
}

TEST_F(MemoryStoreTest, RotChangesEveryPage) {
  open();
  const StoreLocation at = driver_->write(page_).location;
  disk_->rot();
  EXPECT_EQ(driver_->read(at, 5000, memory_.get()).status, Code::kOk);
  EXPECT_FALSE(page_.same_bytes(memory_.get()));
}

TEST(MemoryStoreSeeds, OneSeedGivesOneOrder) {
  const auto space = make_namespace("m", 100);
  std::vector<std::unique_ptr<TestPage>> pages;
  for (uint64_t i = 0; i < 60; ++i) pages.push_back(std::make_unique<TestPage>(*space, 1, i));
  const auto run = [&](uint64_t seed) {
    SeededRandom random(seed);
    MemoryStore store(std::make_shared<MemoryDisk>(), {}, random);
    store.set_faults({.late = 700, .write_fails = 200});
    for (uint64_t i = 0; i < 60; ++i) EXPECT_TRUE(store.submit(pages[i]->write(i)));
    std::vector<std::pair<uint64_t, Code>> order;
    StoreDone done;
    while (order.size() < 60) {
      store.step();
      while (store.poll(done)) order.emplace_back(done.token, done.status);
    }
    return order;
  };
  EXPECT_EQ(run(7), run(7));
  EXPECT_NE(run(7), run(8));
}

}  // namespace
}  // namespace kvsidecar
