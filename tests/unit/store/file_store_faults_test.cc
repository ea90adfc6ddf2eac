// SPDX-License-Identifier: Apache-2.0
// Goal: a failing device costs the pages concerned, never the store, and what was reported as
// stored is stored. Method: errors by script at each kind of operation; then the n-th operation
// fails, for every n, until the scenario passes without a failure.
#include <cerrno>
#include <set>

#include "tests/unit/store/store_fixture.h"

namespace kvsidecar {
namespace {

class FileStoreFaults : public FileStoreTest {
 protected:
  std::unique_ptr<NamespaceInfo> space_ = make_namespace("m", 70'000);
  TestPage first_{*space_, 1, 1}, second_{*space_, 1, 2}, third_{*space_, 1, 3};
};

// O5-01: space may be free where no file can be made: the page stays in memory.
TEST_F(FileStoreFaults, AFullDiskCostsThePage) {
  open();
  const StoreLocation at = driver_->write(first_).location;
  faults_.set("store.write", ENOSPC, 1);
  EXPECT_EQ(driver_->write(second_).status, Code::kNotStored);
  const StoreDone third = driver_->write(third_);
  EXPECT_EQ(third.status, Code::kOk);
  EXPECT_EQ(read(first_, at), Code::kOk);
  EXPECT_EQ(read(third_, third.location), Code::kOk);
  EXPECT_EQ(file_store_->counters().no_space.load(), 1u);
}

TEST_F(FileStoreFaults, ADiskThatStaysFullTakesNothingAndStillReads) {
  open();
  const StoreLocation at = driver_->write(first_).location;
  faults_.set("store.write", ENOSPC);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(driver_->write(second_).status, Code::kNotStored);
  EXPECT_EQ(read(first_, at), Code::kOk);
  faults_.clear();
  EXPECT_EQ(driver_->write(second_).status, Code::kOk);
}

// O5-01, O5-14: nothing half made is left, and its space comes back.
TEST_F(FileStoreFaults, ASegmentThatCannotBeMadeLeavesNoFile) {
  for (const char* point : {"store.open", "store.allocate", "store.write"}) {
    open();
    faults_.set(point, ENOSPC, 1);
    EXPECT_EQ(driver_->write(first_).status, Code::kNotStored) << point;
    EXPECT_TRUE(eventually([&] { return segment_files() == 0; })) << point;
    EXPECT_TRUE(eventually([&] { return file_store_->used_bytes() == 0; })) << point;
    EXPECT_EQ(driver_->write(first_).status, Code::kOk) << point;
    faults_.clear();
    EXPECT_EQ(driver_->unlink(uint64_t{0}), Code::kMiss);
    close();
    std::filesystem::remove_all(folder_.path());
    std::filesystem::create_directory(folder_.path());
  }
}

// O5-06
TEST_F(FileStoreFaults, AFileSystemWithoutFallocateIsFine) {
  open();
  faults_.set("store.allocate", EOPNOTSUPP);
  const StoreDone done = driver_->write(first_);
  EXPECT_EQ(done.status, Code::kOk);
  EXPECT_EQ(read(first_, done.location), Code::kOk);
}

// O5-06: a call that was interrupted is made again.
TEST_F(FileStoreFaults, AnInterruptedCallIsMadeAgain) {
  for (const char* point : {"store.open", "store.allocate", "store.write", "store.fsync"})
    for (const int error : {EINTR, EAGAIN}) {
      open();
      faults_.set(point, error, 2);
      const StoreDone done = driver_->write(first_, true);
      EXPECT_EQ(done.status, Code::kOk) << point << " " << error;
      faults_.clear();
      EXPECT_EQ(read(first_, done.location), Code::kOk);
    }
}

// O5-07
TEST_F(FileStoreFaults, AReadThatFailsOnceIsAnErrorOnce) {
  open();
  const StoreLocation at = driver_->write(first_).location;
  faults_.set("store.read", EIO, 1);
  EXPECT_EQ(read(first_, at), Code::kIoError);
  EXPECT_EQ(read(first_, at), Code::kOk);
  EXPECT_EQ(file_store_->counters().read_errors.load(), 1u);
  EXPECT_TRUE(logged("a read failed"));
}

TEST_F(FileStoreFaults, ADurablePageWithoutItsSyncIsNotStored) {
  open();
  ASSERT_EQ(driver_->write(first_, true).status, Code::kOk);
  faults_.set("store.fsync", EIO, 1);
  EXPECT_EQ(driver_->write(second_, true).status, Code::kNotStored);
  const StoreDone third = driver_->write(third_, true);
  EXPECT_EQ(third.status, Code::kOk);
  EXPECT_EQ(read(third_, third.location), Code::kOk);
}

TEST_F(FileStoreFaults, AFlushReportsWhatCouldNotBeSynced) {
  open();
  ASSERT_EQ(driver_->write(first_).status, Code::kOk);
  faults_.set("store.fsync", EIO, 1);
  EXPECT_EQ(driver_->flush(), Code::kIoError);
  ASSERT_EQ(driver_->write(second_).status, Code::kOk);
  EXPECT_EQ(driver_->flush(), Code::kOk);
}

TEST_F(FileStoreFaults, AFileThatCannotBeUnlinkedStaysCountedAndIsTriedAgain) {
  open();
  const StoreLocation one = driver_->write(first_).location;
  faults_.set("store.unlink", EIO, 1);
  EXPECT_EQ(driver_->unlink(one.segment), Code::kIoError);
  EXPECT_GT(file_store_->used_bytes(), 0u);
  EXPECT_EQ(read(first_, one), Code::kMiss);
  const StoreLocation two = driver_->write(second_).location;
  EXPECT_EQ(driver_->unlink(two.segment), Code::kOk);
  EXPECT_TRUE(eventually([&] { return file_store_->used_bytes() == 0; }));
  EXPECT_EQ(segment_files(), 0u);
}

TEST_F(FileStoreFaults, ODirectThatIsRefusedLaterFallsBackToBufferedIo) {
  open();
  if (file_store_->describe() != "file (O_DIRECT)") GTEST_SKIP() << "no O_DIRECT here";
  faults_.set("store.write", EINVAL, 1, 1);
  const StoreDone done = driver_->write(first_);
  EXPECT_EQ(done.status, Code::kOk);
  EXPECT_TRUE(logged("buffered I/O"));
  EXPECT_EQ(file_store_->describe(), "file (buffered)");
  EXPECT_EQ(read(first_, done.location), Code::kOk);
}

// O5-04
TEST_F(FileStoreFaults, WhereODirectIsRefusedFromTheStartTheLogSaysSo) {
  faults_.set("store.direct", EINVAL);
  open();
  EXPECT_TRUE(logged("O_DIRECT does not work here"));
  const StoreDone done = driver_->write(first_);
  EXPECT_EQ(read(first_, done.location), Code::kOk);
}

// O5-12, O5-14. One scenario: writes of both kinds, a delete, an unlink, a flush. Whatever fails, a
// page that was reported stored can be read, before and after reopening, unless it was deleted.
class NthFailure : public FileStoreTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(NthFailure, WhatWasReportedAsStoredIsStored) {
  const auto small = make_namespace("m", 3000), large = make_namespace("m", 70'000);
  bool failed = true;
  for (uint64_t n = 0; failed; ++n) {
    ASSERT_LT(n, 300u);
    std::filesystem::remove_all(folder_.path());
    std::filesystem::create_directory(folder_.path());
    open();
    const uint64_t before = faults_.calls(GetParam());
    faults_.set(GetParam(), EIO, 1, n);
    std::vector<std::pair<std::unique_ptr<TestPage>, StoreLocation>> stored;
    StoreLocation deleted;
    for (uint64_t i = 0; i < 6; ++i) {
      auto page = std::make_unique<TestPage>(i % 2 == 0 ? *small : *large, 1, i);
      const StoreDone done = driver_->write(*page, i == 3);
      if (done.status == Code::kOk) stored.emplace_back(std::move(page), done.location);
    }
    (void)driver_->flush();
    if (!stored.empty() && driver_->erase(stored.back().second) == Code::kOk) {
      deleted = stored.back().second;
      stored.pop_back();
    }
    for (const auto& [page, at] : stored) (void)read(*page, at);  // may be the one that fails
    failed = faults_.calls(GetParam()) - before > n;
    faults_.clear();
    for (const auto& [page, at] : stored) EXPECT_EQ(read(*page, at), Code::kOk) << "n = " << n;
    open();
    (void)found_pages();
    for (const auto& [page, at] : stored) EXPECT_EQ(read(*page, at), Code::kOk) << "n = " << n;
    if (deleted.segment != 0) {
      const auto memory = page_memory(70'000);
      EXPECT_EQ(driver_->read(deleted, 70'000, memory.get()).status, Code::kMiss) << "n = " << n;
    }
    close();
  }
}

INSTANTIATE_TEST_SUITE_P(Points, NthFailure,
                         testing::Values("store.open", "store.allocate", "store.write",
                                         "store.read", "store.fsync", "store.unlink"));

}  // namespace
}  // namespace kvsidecar
