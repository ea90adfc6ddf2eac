// SPDX-License-Identifier: Apache-2.0
// Goal: all files together stay below the capacity whatever is written (O5-02), and a store that is
// full goes on as soon as something is unlinked. Method: small segments and a capacity of a few of
// them; after every step the counted bytes and those on the disk are compared with it.
#include <sys/stat.h>

#include "tests/unit/store/store_fixture.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kMiB = 1 << 20;

class FileStoreCapacity : public FileStoreTest {
 protected:
  FileStoreCapacity() {
    options_.capacity_bytes = 16 * kMiB;
    for (uint64_t i = 0; i < 60; ++i) pages_.push_back(std::make_unique<TestPage>(*space_, 1, i));
  }
  uint64_t disk_bytes() const {
    uint64_t bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator(file_store_->folder())) {
      struct stat facts {};
      if (segment_from_name(entry.path().filename().string()) != 0 &&
          ::lstat(entry.path().c_str(), &facts) == 0)
        bytes += static_cast<uint64_t>(facts.st_blocks) * 512;
    }
    return bytes;
  }
  void expect_below_capacity() {
    EXPECT_LE(file_store_->used_bytes(), options_.capacity_bytes);
    EXPECT_LE(disk_bytes(), options_.capacity_bytes);
  }
  // A segment wants room, and those before it have given back what they had taken in advance.
  bool waits_for_good() const {
    const uint64_t wanted = file_store_->counters().wanted_bytes.load();
    if (wanted == 0 || file_store_->used_bytes() + wanted <= options_.capacity_bytes - kMiB)
      return false;  // the last is kept for tombstones
    for (const auto& entry : std::filesystem::directory_iterator(file_store_->folder()))
      if (segment_from_name(entry.path().filename().string()) != 0 &&
          entry.file_size() > options_.segment_bytes)
        return false;
    return true;
  }
  // Writes pages until one waits for room; the segments that were written to, oldest first.
  std::vector<uint64_t> fill() {
    std::vector<uint64_t> segments;
    for (next_ = 0; next_ < pages_.size(); ++next_) {
      driver_->submit(pages_[next_]->write(next_));
      EXPECT_TRUE(eventually([&] { return file_store_->has_done() || waits_for_good(); }));
      expect_below_capacity();
      if (!file_store_->has_done()) return segments;
      const StoreDone written = driver_->next();
      EXPECT_EQ(written.status, Code::kOk);
      if (segments.empty() || segments.back() != written.location.segment)
        segments.push_back(written.location.segment);
    }
    ADD_FAILURE() << "everything found room";
    return segments;
  }
  std::unique_ptr<NamespaceInfo> space_ = make_namespace("m", kMiB);
  std::vector<std::unique_ptr<TestPage>> pages_;
  size_t next_ = 0;  // the page that waits
};

TEST_F(FileStoreCapacity, ASegmentThatFindsNoRoomWaitsUntilAnotherIsUnlinked) {
  open();
  const std::vector<uint64_t> segments = fill();
  ASSERT_GE(segments.size(), 2u);
  EXPECT_GT(file_store_->used_bytes() + file_store_->wanted_bytes(), options_.capacity_bytes);
  StoreCommand unlink;
  unlink.op = StoreOp::kUnlink;
  unlink.token = 1000;
  unlink.location.segment = segments[0];
  driver_->submit(std::move(unlink));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(driver_->next().status, Code::kOk);
  expect_below_capacity();
  EXPECT_EQ(file_store_->counters().no_space.load(), 0u);
}

// Who makes room goes by these figures alone: a segment that waits while they lie within the
// capacity would wait for ever, and each page with it.
TEST_F(FileStoreCapacity, WhateverTheCapacityASegmentThatWaitsForRoomShowsInWhatIsWanted) {
  for (uint64_t more = 0; more < 4 * kMiB; more += 256 << 10) {
    options_.capacity_bytes = 16 * kMiB + more;
    open();
    fill();
    EXPECT_GT(file_store_->used_bytes() + file_store_->wanted_bytes(), options_.capacity_bytes)
        << more;
    close();
    std::filesystem::remove_all(options_.root);
    std::filesystem::create_directory(options_.root);
  }
}

TEST_F(FileStoreCapacity, APageThatWaitsTooLongForRoomIsNotStored) {
  open();
  fill();
  clock_.advance(2'000'000'000);
  EXPECT_EQ(driver_->next().status, Code::kNotStored);
  EXPECT_EQ(file_store_->counters().no_space.load(), 1u);
  expect_below_capacity();
  EXPECT_TRUE(file_store_->counters().wanted_bytes.load() == 0);
}

TEST_F(FileStoreCapacity, AStoreThatIsFullClosesAtOnceAndKeepsWhatItHas) {
  open();
  fill();
  close();
  open();
  EXPECT_EQ(found_pages(), next_);
  expect_below_capacity();
}

TEST_F(FileStoreCapacity, TombstonesFindRoomInAFullStore) {
  open();
  const StoreLocation first = driver_->write(*pages_[0]).location;
  fill();
  clock_.advance(2'000'000'000);
  EXPECT_EQ(driver_->next().status, Code::kNotStored);
  EXPECT_EQ(driver_->erase(first, true), Code::kOk);
  expect_below_capacity();
}

TEST_F(FileStoreCapacity, ASegmentThatFailsToBeMadeGivesItsRoomBack) {
  options_.capacity_bytes = 6 * kMiB;  // one segment and no second
  open();
  faults_.set("store.allocate", EIO, 1);
  EXPECT_EQ(driver_->write(*pages_[0]).status, Code::kNotStored);
  EXPECT_TRUE(eventually([&] { return file_store_->used_bytes() == 0; }));
  EXPECT_EQ(driver_->write(*pages_[0]).status, Code::kOk);
}

TEST_F(FileStoreCapacity, WithoutACapacityNothingWaits) {
  options_.capacity_bytes = 0;
  open();
  for (const auto& page : pages_) ASSERT_EQ(driver_->write(*page).status, Code::kOk);
  EXPECT_EQ(file_store_->wanted_bytes(), 0u);
}

// O5-08, O5-11: a read or an open that fails now and then at the scan costs nothing; a stale handle
// is opened anew; what fails for good is left for the next start.
class FileStoreScanErrors : public FileStoreTest {
 protected:
  void SetUp() override {
    open();
    for (const auto& page : {&first_, &second_}) {
      ASSERT_EQ(driver_->write(*page).status, Code::kOk);
    }
    open();
  }
  std::unique_ptr<NamespaceInfo> space_ = make_namespace("m", 70'000);
  TestPage first_{*space_, 1, 1}, second_{*space_, 1, 2};
};

TEST_F(FileStoreScanErrors, AnErrorThatPassesCostsNothing) {
  for (const char* point : {"store.read", "store.open"})
    for (const int error : {EIO, ESTALE})
      for (uint64_t skip = 0; skip < 2; ++skip) {
        open();
        faults_.set(point, error, 2, skip);
        EXPECT_EQ(found_pages(), 2u) << point << " " << error << " after " << skip;
        EXPECT_EQ(file_store_->counters().bad_superblocks.load(), 0u);
        faults_.clear();
      }
}

TEST_F(FileStoreScanErrors, AnErrorThatStaysCostsTheSegmentUntilTheNextStart) {
  faults_.set("store.read", EIO);
  EXPECT_EQ(found_pages(), 0u);
  EXPECT_EQ(faults_.calls("store.read"), 3u) << "bounded";
  EXPECT_EQ(file_store_->counters().bad_superblocks.load(), 1u);
  EXPECT_TRUE(logged("is left alone"));
  faults_.clear();
  open();
  EXPECT_EQ(found_pages(), 2u);
}

}  // namespace
}  // namespace kvsidecar
