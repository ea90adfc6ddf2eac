// SPDX-License-Identifier: Apache-2.0
// Goal: a delete holds as long as its segment exists, and tombstones leave with it. Method: several
// lives of a store, its files counted.
#include "sidecar/store/tombstones.h"

#include "tests/unit/store/store_fixture.h"

namespace kvsidecar {
namespace {

class TombstonesTest : public FileStoreTest {
 protected:
  std::unique_ptr<NamespaceInfo> space_ = make_namespace("m", 5000);
};

TEST_F(TombstonesTest, DeletesOfManyLivesHoldAndAreCarriedOn) {
  std::vector<std::unique_ptr<TestPage>> pages;
  std::vector<StoreLocation> places;
  open();
  for (uint64_t i = 0; i < 8; ++i) {
    pages.push_back(std::make_unique<TestPage>(*space_, 1, i));
    places.push_back(driver_->write(*pages.back()).location);
  }
  for (size_t life = 0; life < 6; ++life) {
    ASSERT_EQ(driver_->erase(places[life]), Code::kOk);
    open();
    EXPECT_EQ(found_pages(), 8 - life - 1);
    for (size_t i = 0; i < 8; ++i)
      EXPECT_EQ(read(*pages[i], places[i]), i <= life ? Code::kMiss : Code::kOk);
    // The pages' segment, at most one old carrier, and the one that carries on.
    EXPECT_TRUE(eventually([&] { return segment_files() <= 3; })) << "life " << life;
  }
}

TEST_F(TombstonesTest, CarriersLeaveWithTheirTargets) {
  const TestPage one(*space_, 1, 1), two(*space_, 1, 2);
  open();
  const StoreLocation at = driver_->write(one).location;
  ASSERT_EQ(driver_->write(two).status, Code::kOk);
  ASSERT_EQ(driver_->erase(at), Code::kOk);
  open();
  ASSERT_EQ(found_pages(), 1u);
  EXPECT_EQ(driver_->unlink(at.segment), Code::kOk);
  EXPECT_TRUE(eventually([&] { return segment_files() == 0; }));
  EXPECT_TRUE(eventually([&] { return file_store_->used_bytes() == 0; }));
}

TEST_F(TombstonesTest, ACarrierIsUnlinkedOnlyAfterItsTombstonesAreWrittenAgain) {
  const TestPage one(*space_, 1, 1), two(*space_, 1, 2);
  open();
  const StoreLocation at = driver_->write(one).location;
  ASSERT_EQ(driver_->write(two).status, Code::kOk);
  ASSERT_EQ(driver_->erase(at), Code::kOk);
  const uint64_t carrier = at.segment + 1;
  ASSERT_TRUE(std::filesystem::exists(path_of(carrier)));
  EXPECT_EQ(driver_->unlink(carrier), Code::kOk);
  EXPECT_FALSE(std::filesystem::exists(path_of(carrier)));
  open();
  EXPECT_EQ(found_pages(), 1u);
  EXPECT_EQ(read(one, at), Code::kMiss);
}

TEST_F(TombstonesTest, ACarrierThatCannotBeReadTodayIsKeptForTomorrow) {
  const TestPage one(*space_, 1, 1), two(*space_, 1, 2);
  open();
  const StoreLocation at = driver_->write(one).location;
  ASSERT_EQ(driver_->write(two).status, Code::kOk);
  ASSERT_EQ(driver_->erase(at), Code::kOk);
  open();
  faults_.set("store.read", EIO, 3, 2);  // two superblocks, then the carrier's directory, always
  EXPECT_EQ(found_pages(), 2u);
  faults_.clear();
  open();
  EXPECT_EQ(found_pages(), 1u);
  EXPECT_EQ(read(one, at), Code::kMiss);
}

TEST_F(TombstonesTest, AStoreThatClosesDuringAScanForgetsNothing) {
  const TestPage one(*space_, 1, 1), two(*space_, 1, 2);
  open();
  const StoreLocation at = driver_->write(one).location;
  ASSERT_EQ(driver_->write(two).status, Code::kOk);
  ASSERT_EQ(driver_->erase(at), Code::kOk);
  for (int steps = 0; steps < 6; ++steps) {
    open();
    StoreCommand scan;
    scan.op = StoreOp::kScan;
    ASSERT_TRUE(file_store_->submit(std::move(scan)));
    for (int i = 0; i < steps; ++i) file_store_->step();
  }
  open();
  EXPECT_EQ(found_pages(), 1u);
  EXPECT_EQ(read(one, at), Code::kMiss);
}

TEST_F(TombstonesTest, MoreThanOneCarrierHolds) {
  std::vector<StoreLocation> places;
  std::vector<std::unique_ptr<TestPage>> pages;
  open();
  for (uint64_t i = 0; i < 1500; ++i) {
    pages.push_back(std::make_unique<TestPage>(*make_namespace("m", 5000), 1, i));
    pages.back()->space = space_.get();
    driver_->submit(pages.back()->write(i));
  }
  for (uint64_t i = 0; i < 1500; ++i) places.push_back(driver_->next().location);
  for (uint64_t i = 0; i < 1400; ++i) {
    StoreCommand command;
    command.op = StoreOp::kDelete;
    command.token = i;
    command.location = places[i];
    driver_->submit(std::move(command));
  }
  for (uint64_t i = 0; i < 1400; ++i) EXPECT_EQ(driver_->next().status, Code::kOk);
  open();
  EXPECT_EQ(found_pages(), 100u);
}

}  // namespace
}  // namespace kvsidecar
