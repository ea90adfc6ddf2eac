// SPDX-License-Identifier: Apache-2.0
// Goal: whatever lies in the folder, a scan finds the whole pages, and each damage costs only the
// pages concerned. Method: segments are written, damaged from outside, and found again.
#include <fcntl.h>
#include <unistd.h>

#include <fstream>

#include "tests/unit/store/store_fixture.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kPageBytes = 70'000;
constexpr size_t kPages = 5;

class FileStoreFiles : public FileStoreTest {
 protected:
  // Writes kPages pages into one segment and closes the store.
  void SetUp() override {
    open();
    for (uint64_t i = 0; i < kPages; ++i) {
      pages_.push_back(std::make_unique<TestPage>(*space_, 1, i));
      const StoreDone done = driver_->write(*pages_.back());
      ASSERT_EQ(done.status, Code::kOk);
      places_.push_back(done.location);
      ASSERT_EQ(places_[i].segment, places_[0].segment);
    }
    path_ = path_of(places_[0].segment);
    store_folder_ = file_store_->folder();
    close();
  }
  void flip(uint64_t offset) {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    char byte = 0;
    file.get(byte);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(static_cast<char>(byte ^ 0x10));
  }
  uint64_t entry_offset(uint32_t slot) const { return kBlockBytes + uint64_t{slot} * kEntryBytes; }
  uint64_t page_offset(uint32_t slot) const {
    std::ifstream file(path_, std::ios::binary);
    std::array<char, kEntryBytes> bytes{};
    file.seekg(static_cast<std::streamoff>(entry_offset(slot)));
    file.read(bytes.data(), bytes.size());
    std::array<std::byte, kEntryBytes> entry{};
    std::memcpy(entry.data(), bytes.data(), bytes.size());
    return decode_entry(entry, places_[0].segment, slot).offset;
  }
  void expect_all_but(const std::vector<size_t>& lost) {
    EXPECT_EQ(found_pages(), kPages - lost.size());
    for (size_t i = 0; i < kPages; ++i) {
      const bool is_lost = std::find(lost.begin(), lost.end(), i) != lost.end();
      EXPECT_EQ(read(*pages_[i], places_[i]), is_lost ? Code::kMiss : Code::kOk) << i;
    }
  }

  std::unique_ptr<NamespaceInfo> space_ = make_namespace("m", kPageBytes);
  std::vector<std::unique_ptr<TestPage>> pages_;
  std::vector<StoreLocation> places_;
  std::string path_, store_folder_;
};

TEST_F(FileStoreFiles, ATornDirectoryEntryCostsItsPage) {
  flip(entry_offset(places_[2].slot) + 40);
  open();
  expect_all_but({2});
  EXPECT_EQ(file_store_->counters().torn_entries.load(), 1u);
}

TEST_F(FileStoreFiles, AZeroedEntryCostsItsPage) {
  std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(entry_offset(places_[0].slot)));
  file.write(std::string(kEntryBytes, '\0').data(), kEntryBytes);
  file.close();
  open();
  expect_all_but({0});
}

TEST_F(FileStoreFiles, ATruncatedFileCostsThePagesBeyondItsEnd) {
  const uint64_t third = page_offset(places_[3].slot);
  ASSERT_GT(third, 0u);
  std::filesystem::resize_file(path_, third + 10'000);
  open();
  expect_all_but({3, 4});
  EXPECT_EQ(file_store_->counters().cut_pages.load(), 2u);
}

TEST_F(FileStoreFiles, EveryLengthOfATruncatedFileIsSurvived) {
  const uint64_t whole = std::filesystem::file_size(path_);
  for (uint64_t length = whole; length > 0; length = length * 3 / 4) {
    std::filesystem::resize_file(path_, length);
    open();
    EXPECT_LE(found_pages(), kPages);
    for (size_t i = 0; i < kPages; ++i) {
      const Code status = read(*pages_[i], places_[i]);
      EXPECT_TRUE(status == Code::kOk || status == Code::kMiss || status == Code::kIoError);
    }
    close();
    if (!std::filesystem::exists(path_)) break;  // nothing was left in it
  }
}

TEST_F(FileStoreFiles, AFileCutWhileItIsInUseCostsTheReadsBeyondItsEnd) {
  open();
  ASSERT_EQ(found_pages(), kPages);
  std::filesystem::resize_file(path_, page_offset(places_[3].slot) + 10'000);
  EXPECT_EQ(read(*pages_[2], places_[2]), Code::kOk);
  EXPECT_EQ(read(*pages_[3], places_[3]), Code::kIoError);
  EXPECT_EQ(read(*pages_[4], places_[4]), Code::kIoError);
}

TEST_F(FileStoreFiles, ABadSuperblockCostsItsSegmentAndLeavesTheFile) {
  flip(100);
  open();
  const TestPage other(*space_, 1, 99);
  const StoreLocation at = driver_->write(other).location;
  EXPECT_EQ(found_pages(), 1u) << "the one that was written now";
  EXPECT_EQ(read(other, at), Code::kOk);
  EXPECT_EQ(read(*pages_[0], places_[0]), Code::kMiss);
  EXPECT_EQ(file_store_->counters().bad_superblocks.load(), 1u);
  EXPECT_TRUE(std::filesystem::exists(path_));
  EXPECT_TRUE(logged("is left alone"));
}

TEST_F(FileStoreFiles, TrailingGarbageCostsNothingAndGoes) {
  const uint64_t bytes = std::filesystem::file_size(path_);
  std::ofstream(path_, std::ios::app | std::ios::binary) << std::string(123'457, 'g');
  open();
  expect_all_but({});
  EXPECT_EQ(std::filesystem::file_size(path_), bytes);
}

TEST_F(FileStoreFiles, ForeignFilesAreCountedAndLeftAlone) {
  std::ofstream(store_folder_ + "/notes.txt") << "hello";
  std::ofstream(store_folder_ + "/" + segment_name(1ull << 32 | 900)) << std::string(9000, 'x');
  std::filesystem::create_directory(store_folder_ + "/" + segment_name(1ull << 32 | 901));
  std::filesystem::create_symlink(path_, store_folder_ + "/" + segment_name(1ull << 32 | 902));
  std::filesystem::copy_file(path_, store_folder_ + "/" + segment_name(1ull << 32 | 903));
  open();
  expect_all_but({});
  EXPECT_EQ(file_store_->counters().foreign_files.load(), 5u);
  EXPECT_TRUE(std::filesystem::exists(store_folder_ + "/notes.txt"));
  for (const uint64_t n : {900u, 901u, 902u, 903u})
    EXPECT_TRUE(std::filesystem::exists(store_folder_ + "/" + segment_name(1ull << 32 | n))) << n;
}

TEST_F(FileStoreFiles, WhatACrashLeftEmptyIsRemoved) {
  const std::string none = store_folder_ + "/" + segment_name(1ull << 32 | 900);
  const std::string zero = store_folder_ + "/" + segment_name(1ull << 32 | 901);
  std::ofstream(none).flush();
  std::ofstream(zero) << std::string(50'000, '\0');
  open();
  expect_all_but({});
  EXPECT_TRUE(eventually([&] { return !std::filesystem::exists(none); }));
  EXPECT_TRUE(eventually([&] { return !std::filesystem::exists(zero); }));
  const uint64_t bytes = std::filesystem::file_size(path_);
  EXPECT_TRUE(eventually([&] { return file_store_->used_bytes() == bytes; }));
}

TEST_F(FileStoreFiles, ARottenTrailerIsCorruptAndItsNeighboursAreWell) {
  const uint64_t trailer = trailer_offset(page_offset(places_[1].slot), kPageBytes);
  flip(trailer + 30);
  open();
  EXPECT_EQ(found_pages(), kPages);
  EXPECT_EQ(read(*pages_[1], places_[1]), Code::kCorrupt);
  EXPECT_EQ(read(*pages_[2], places_[2]), Code::kOk);
}

TEST_F(FileStoreFiles, AFileRemovedFromOutsideIsAMissAndUnlinksWell) {
  open();
  ASSERT_EQ(found_pages(), kPages);
  close();
  open();
  std::filesystem::remove(path_);
  EXPECT_EQ(found_pages(), 0u);
  EXPECT_EQ(read(*pages_[0], places_[0]), Code::kMiss);
}

// O5-03: eviction meets a file that somebody removed; its space counts as given back.
TEST_F(FileStoreFiles, AFileRemovedFromOutsideWhileItIsKnownIsUnlinkedWell) {
  open();
  ASSERT_EQ(found_pages(), kPages);
  std::filesystem::remove(path_);
  EXPECT_EQ(driver_->unlink(places_[0].segment), Code::kOk);
  EXPECT_TRUE(eventually([&] { return file_store_->used_bytes() == 0; }));
  EXPECT_EQ(read(*pages_[0], places_[0]), Code::kMiss);
  EXPECT_EQ(driver_->write(*pages_[0]).status, Code::kOk);
}

TEST_F(FileStoreFiles, ASegmentWhosePagesAreAllDeletedIsRemovedAtTheNextStart) {
  open();
  ASSERT_EQ(found_pages(), kPages);
  for (const StoreLocation& at : places_) ASSERT_EQ(driver_->erase(at), Code::kOk);
  open();
  EXPECT_EQ(found_pages(), 0u);
  EXPECT_TRUE(eventually([&] { return !std::filesystem::exists(path_); }));
}

TEST_F(FileStoreFiles, TwoScansFindTheSame) {
  open();
  expect_all_but({});
  const uint64_t used_bytes = file_store_->used_bytes();
  expect_all_but({});
  EXPECT_EQ(file_store_->used_bytes(), used_bytes);
}

}  // namespace
}  // namespace kvsidecar
