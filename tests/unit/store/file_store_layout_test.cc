// SPDX-License-Identifier: Apache-2.0
// Goal: how pages are laid out and written: small ones packed, entries grouped, loads first,
// registered memory used, segments bounded. Method: operations are counted by their fault points.
#include <set>

#include "tests/unit/store/store_fixture.h"

namespace kvsidecar {
namespace {

class FileStoreLayout : public FileStoreTest {};

TEST_F(FileStoreLayout, SmallPagesArePackedIntoFewWrites) {
  const auto space = make_namespace("m", 4000);
  open();
  ASSERT_EQ(driver_->write(TestPage(*space, 1, 1)).status, Code::kOk);
  std::vector<std::unique_ptr<TestPage>> pages;
  const uint64_t before = faults_.calls("store.write");
  for (uint64_t i = 0; i < 200; ++i) {
    pages.push_back(std::make_unique<TestPage>(*space, 1, 10 + i));
    ASSERT_TRUE(file_store_->submit(pages.back()->write(i)));
  }
  uint64_t slot_bytes = 0;
  for (uint64_t i = 0; i < 200; ++i) slot_bytes += driver_->next().slot_bytes;
  EXPECT_LE(faults_.calls("store.write") - before, 8u);
  EXPECT_LT(slot_bytes, 200u * 4500);
}

TEST_F(FileStoreLayout, EntriesOfPagesThatEndTogetherAreWrittenTogether) {
  const auto space = make_namespace("m", 70'000);
  open();
  ASSERT_EQ(driver_->write(TestPage(*space, 1, 1)).status, Code::kOk);
  std::vector<std::unique_ptr<TestPage>> pages;
  const uint64_t before = faults_.calls("store.write");
  for (uint64_t i = 0; i < 30; ++i) {
    pages.push_back(std::make_unique<TestPage>(*space, 1, 10 + i));
    ASSERT_TRUE(file_store_->submit(pages.back()->write(i)));
  }
  for (uint64_t i = 0; i < 30; ++i) EXPECT_EQ(driver_->next().status, Code::kOk);
  const uint64_t directory_writes = faults_.calls("store.write") - before - 30;
  EXPECT_GE(directory_writes, 1u);
  EXPECT_LE(directory_writes, 15u);
}

TEST_F(FileStoreLayout, ManyDurablePagesShareASync) {
  const auto space = make_namespace("m", 4000);
  open();
  std::vector<std::unique_ptr<TestPage>> pages;
  for (uint64_t i = 0; i < 100; ++i) {
    pages.push_back(std::make_unique<TestPage>(*space, 1, i));
    ASSERT_TRUE(file_store_->submit(pages.back()->write(i, true)));
  }
  for (uint64_t i = 0; i < 100; ++i) EXPECT_EQ(driver_->next().status, Code::kOk);
  EXPECT_LE(faults_.calls("store.fsync"), 12u);
}

TEST_F(FileStoreLayout, LoadsOvertakeTheStoresThatWait) {
  const auto space = make_namespace("m", 500'000);
  open();
  const TestPage page(*space, 1, 1);
  const StoreLocation at = driver_->write(page).location;
  for (uint64_t i = 0; i < 150; ++i) ASSERT_TRUE(file_store_->submit(page.write(i)));
  const auto memory = page_memory(page.page_bytes);
  StoreCommand read;
  read.op = StoreOp::kRead;
  read.token = 999;
  read.location = at;
  read.page = memory.get();
  read.page_bytes = page.page_bytes;
  ASSERT_TRUE(file_store_->submit(std::move(read)));
  size_t before = 0;
  for (StoreDone done = driver_->next(); done.token != 999; done = driver_->next()) ++before;
  EXPECT_LT(before, 100u);
  for (size_t i = before; i < 150; ++i) EXPECT_EQ(driver_->next().status, Code::kOk);
}

TEST_F(FileStoreLayout, RegisteredMemoryServesAsWell) {
  const auto space = make_namespace("m", 300'000);
  open();
  const TestPage page(*space, 1, 1);
  const uint64_t rounded = align_up(page.page_bytes, kBlockBytes);
  const auto memory = page_memory(page.page_bytes);
  EXPECT_TRUE(file_store_->register_memory({page.memory.get(), rounded}));
  EXPECT_TRUE(file_store_->register_memory({memory.get(), rounded}));
  const StoreDone written = driver_->write(page);
  ASSERT_EQ(written.status, Code::kOk);
  const StoreDone done = driver_->read(written.location, page.page_bytes, memory.get());
  ASSERT_EQ(done.status, Code::kOk);
  EXPECT_TRUE(page.same_bytes(memory.get()));
  EXPECT_TRUE(page.same_record(*done.record));
}

TEST_F(FileStoreLayout, SegmentsKeepTheirSizeAndAreCutWhenTheyAreFull) {
  const auto space = make_namespace("m", 900'000);
  open();
  std::set<uint64_t> segments;
  for (uint64_t i = 0; i < 20; ++i) {
    const TestPage page(*space, 1, i);
    segments.insert(driver_->write(page).location.segment);
    EXPECT_LE(file_store_->used_bytes(), segments.size() * (5u << 20) + (4u << 20));
  }
  EXPECT_GE(segments.size(), 5u);
  for (const uint64_t segment : segments) {
    if (segment == *segments.rbegin()) continue;
    const std::string path = path_of(segment);
    EXPECT_TRUE(eventually([&] { return std::filesystem::file_size(path) <= 4u << 20; }));
  }
  uint64_t bytes = 0;
  for (const uint64_t segment : segments) bytes += std::filesystem::file_size(path_of(segment));
  EXPECT_EQ(file_store_->used_bytes(), bytes);
}

TEST_F(FileStoreLayout, APageLargerThanASegmentGetsOneOfItsOwn) {
  options_.segment_bytes = 1 << 20;
  const auto space = make_namespace("m", 3 << 20);
  open();
  const TestPage one(*space, 1, 1), two(*space, 1, 2);
  const StoreDone a = driver_->write(one), b = driver_->write(two);
  EXPECT_NE(a.location.segment, b.location.segment);
  EXPECT_EQ(read(one, a.location), Code::kOk);
  EXPECT_EQ(read(two, b.location), Code::kOk);
}

TEST_F(FileStoreLayout, ManyNamespacesShareAStoreWithBoundedOpenSegments) {
  open();
  std::vector<std::unique_ptr<NamespaceInfo>> spaces;
  std::vector<std::unique_ptr<TestPage>> pages;
  std::vector<StoreLocation> places;
  for (uint64_t i = 0; i < 150; ++i) {
    clock_.advance(1000);
    spaces.push_back(make_namespace("model " + std::to_string(i), 200));
    pages.push_back(std::make_unique<TestPage>(*spaces.back(), 1, i));
    places.push_back(driver_->write(*pages.back()).location);
  }
  for (size_t i = 0; i < 150; ++i) EXPECT_EQ(read(*pages[i], places[i]), Code::kOk);
  // What is open holds space in advance; the rest is cut to what it holds.
  const uint64_t bound = 70u * (12u << 20) + 80u * (9u << 20);
  EXPECT_TRUE(eventually([&] { return file_store_->used_bytes() <= bound; }));
  open();
  EXPECT_EQ(found_pages(), 150u);
}

TEST_F(FileStoreLayout, ClosingWritesWhatWasStarted) {
  const auto space = make_namespace("m", 70'000);
  open();
  std::vector<std::unique_ptr<TestPage>> pages;
  for (uint64_t i = 0; i < 8; ++i) {
    pages.push_back(std::make_unique<TestPage>(*space, 1, i));
    ASSERT_TRUE(file_store_->submit(pages.back()->write(i)));
  }
  while (file_store_->step()) {
  }
  close();
  open();
  EXPECT_LE(found_pages(), 8u);
}

TEST_F(FileStoreLayout, ACapacityBeyondTheFileSystemIsWarnedOfWithBothNumbers) {
  options_.capacity_bytes = ~uint64_t{0} / 2;
  open();
  EXPECT_TRUE(logged("9223372036854775807 bytes is more than the file system's"));
}

TEST_F(FileStoreLayout, OptionsOutOfRangeAreRefusedByName) {
  options_.segment_bytes = 100;
  auto store = FileStore::open(options_, clock_, faults_, nullptr);
  ASSERT_FALSE(store.ok());
  EXPECT_NE(store.status().text().find("segment_bytes is 100"), std::string::npos);
}

}  // namespace
}  // namespace kvsidecar
