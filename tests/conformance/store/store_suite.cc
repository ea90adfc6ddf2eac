// SPDX-License-Identifier: Apache-2.0
// Goal: every store keeps the contract of store.h. Method: one set of cases, turned in the test's
// own thread, on every implementation; pages carry made-up bytes that follow from their number, so
// that any swap, tear or loss is seen.
#include <cstring>
#include <map>
#include <set>

#include "tests/conformance/store/store_subject.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kOddSizes[] = {1,       17,     4095, 4096, 5000, 64 * 1024, 64 * 1024 + 1,
                                  1 << 20, 8 << 20};

StoreCommand read_command(uint64_t token, StoreLocation location, std::byte* into,
                          uint64_t page_bytes) {
  StoreCommand command;
  command.op = StoreOp::kRead;
  command.token = token;
  command.location = location;
  command.page = into;
  command.page_bytes = page_bytes;
  return command;
}

// O5-04, O5-09: sizes that no block divides; one subject moves half of every transfer at a time.
TEST_P(StoreConformance, APageOfAnySizeComesBackExactly) {
  const auto subject = GetParam()();
  StoreDriver driver(subject->open());
  for (const uint64_t page_bytes : kOddSizes) {
    const auto space = make_namespace("m", page_bytes);
    for (const size_t description_bytes : {size_t{0}, size_t{3}, size_t{16 * 1024}}) {
      const TestPage page(*space, 1, page_bytes + description_bytes, description_bytes);
      const StoreDone written = driver.write(page);
      ASSERT_EQ(written.status, Code::kOk) << page_bytes;
      EXPECT_GT(written.slot_bytes, 0u);
      const auto memory = page_memory(page_bytes);
      const StoreDone read = driver.read(written.location, page_bytes, memory.get());
      ASSERT_EQ(read.status, Code::kOk) << page_bytes;
      EXPECT_TRUE(page.same_bytes(memory.get())) << page_bytes;
      ASSERT_NE(read.record, nullptr);
      EXPECT_TRUE(page.same_record(*read.record)) << page_bytes;
    }
  }
}

TEST_P(StoreConformance, AWrongLocationIsAMiss) {
  const auto subject = GetParam()();
  StoreDriver driver(subject->open());
  const auto space = make_namespace("m", 4096);
  const TestPage page(*space, 1, 1);
  const StoreLocation at = driver.write(page).location;
  const auto memory = page_memory(8192);
  EXPECT_EQ(driver.read({at.segment, at.slot + 1}, 4096, memory.get()).status, Code::kMiss);
  EXPECT_EQ(driver.read({at.segment, 0xffffffffu}, 4096, memory.get()).status, Code::kMiss);
  EXPECT_EQ(driver.read({at.segment + 1, at.slot}, 4096, memory.get()).status, Code::kMiss);
  EXPECT_EQ(driver.read({0, 0}, 4096, memory.get()).status, Code::kMiss);
  EXPECT_EQ(driver.read(at, 4097, memory.get()).status, Code::kMiss);
  EXPECT_EQ(driver.erase({at.segment, at.slot + 1}), Code::kMiss);
  EXPECT_EQ(driver.unlink(at.segment + 1), Code::kMiss);
  EXPECT_EQ(driver.read(at, 4096, memory.get()).status, Code::kOk);
}

TEST_P(StoreConformance, ADeletedPageIsAMissAlsoAfterReopening) {
  const auto subject = GetParam()();
  const auto space = make_namespace("m", 70'000);
  const TestPage kept(*space, 1, 1), gone(*space, 1, 2);
  StoreLocation kept_at, gone_at;
  const auto memory = page_memory(70'000);
  {
    StoreDriver driver(subject->open());
    kept_at = driver.write(kept).location;
    gone_at = driver.write(gone).location;
    EXPECT_EQ(driver.erase(gone_at), Code::kOk);
    EXPECT_EQ(driver.read(gone_at, 70'000, memory.get()).status, Code::kMiss);
    EXPECT_EQ(driver.erase(gone_at), Code::kMiss);
  }
  for (int life = 0; life < 3; ++life) {
    StoreDriver driver(subject->open());
    const auto found = driver.scan();
    ASSERT_EQ(found.size(), 1u);
    ASSERT_EQ(found[0]->pages.size(), 1u);
    EXPECT_EQ(found[0]->pages[0].hash, kept.record->hash);
    EXPECT_EQ(driver.read(gone_at, 70'000, memory.get()).status, Code::kMiss);
    EXPECT_EQ(driver.read(kept_at, 70'000, memory.get()).status, Code::kOk);
  }
}

TEST_P(StoreConformance, AnUnlinkedSegmentIsGoneWithItsBytes) {
  const auto subject = GetParam()();
  StoreDriver driver(subject->open());
  const auto space = make_namespace("m", 100'000);
  const uint64_t empty_bytes = driver.store().used_bytes();
  const TestPage page(*space, 1, 1), later(*space, 1, 2);
  const StoreLocation at = driver.write(page).location;
  EXPECT_GT(driver.store().used_bytes(), empty_bytes);
  EXPECT_EQ(driver.unlink(at.segment), Code::kOk);
  EXPECT_EQ(driver.store().used_bytes(), empty_bytes);
  const auto memory = page_memory(100'000);
  EXPECT_EQ(driver.read(at, 100'000, memory.get()).status, Code::kMiss);
  EXPECT_EQ(driver.unlink(at.segment), Code::kMiss);
  const StoreLocation again = driver.write(later).location;
  EXPECT_NE(again.segment, at.segment);
  EXPECT_EQ(driver.read(again, 100'000, memory.get()).status, Code::kOk);
  EXPECT_TRUE(later.same_bytes(memory.get()));
}

// O5-05, O6-09: with O_DIRECT, without it, and without io_uring.
TEST_P(StoreConformance, AScanAfterReopeningFindsExactlyWhatWasWritten) {
  const auto subject = GetParam()();
  std::vector<std::unique_ptr<NamespaceInfo>> spaces;
  for (const uint64_t page_bytes : {uint64_t{100}, uint64_t{4096}, uint64_t{300'000}})
    spaces.push_back(make_namespace("m", page_bytes));
  std::map<std::pair<uint64_t, uint32_t>, const TestPage*> written;
  std::vector<std::unique_ptr<TestPage>> pages;
  uint64_t used_bytes = 0;
  for (int life = 0; life < 2; ++life) {
    StoreDriver driver(subject->open());
    for (uint64_t i = 0; i < 60; ++i) {
      const NamespaceInfo& space = *spaces[i % spaces.size()];
      pages.push_back(
          std::make_unique<TestPage>(space, 1 + i % 2, i + 1000 * static_cast<uint64_t>(life)));
      const StoreDone done = driver.write(*pages.back());
      ASSERT_EQ(done.status, Code::kOk);
      const bool fresh =
          written.emplace(std::pair(done.location.segment, done.location.slot), pages.back().get())
              .second;
      EXPECT_TRUE(fresh) << "a location was used twice";
    }
  }
  StoreDriver driver(subject->open());
  size_t found_pages = 0;
  for (const auto& segment : driver.scan()) {
    used_bytes += segment->bytes;
    for (const FoundPage& found : segment->pages) {
      ++found_pages;
      const auto at = written.find({segment->segment, found.slot});
      ASSERT_NE(at, written.end());
      const TestPage& page = *at->second;
      EXPECT_EQ(found.hash, page.record->hash);
      EXPECT_EQ(found.digest, page.record->digest);
      EXPECT_EQ(found.page_bytes, page.page_bytes);
      EXPECT_EQ(segment->encoded, page.space->encoded);
      EXPECT_EQ(segment->generation, page.record->generation);
      const auto memory = page_memory(page.page_bytes);
      const StoreDone read =
          driver.read({segment->segment, found.slot}, page.page_bytes, memory.get());
      ASSERT_EQ(read.status, Code::kOk);
      EXPECT_TRUE(page.same_bytes(memory.get()));
      EXPECT_TRUE(page.same_record(*read.record));
    }
  }
  EXPECT_EQ(found_pages, written.size());
  EXPECT_EQ(driver.store().used_bytes(), used_bytes);
}

TEST_P(StoreConformance, ASegmentHoldsOneNamespaceAndGeneration) {
  const auto subject = GetParam()();
  StoreDriver driver(subject->open());
  const auto one = make_namespace("one", 4096), two = make_namespace("two", 4096);
  std::set<uint64_t> segments;
  segments.insert(driver.write(TestPage(*one, 1, 1)).location.segment);
  segments.insert(driver.write(TestPage(*two, 1, 1)).location.segment);
  segments.insert(driver.write(TestPage(*one, 2, 1)).location.segment);
  EXPECT_EQ(segments.size(), 3u);
  EXPECT_EQ(segments.count(0), 0u);
}

TEST_P(StoreConformance, EveryCommandIsDoneOnceAlsoWhenManyAreOut) {
  const auto subject = GetParam()();
  StoreDriver driver(subject->open());
  const auto small = make_namespace("m", 3000), large = make_namespace("m", 150'000);
  std::vector<std::unique_ptr<TestPage>> pages;
  std::map<uint64_t, StoreLocation> locations;  // by token
  constexpr uint64_t kPages = 400;
  for (uint64_t i = 0; i < kPages; ++i) {
    pages.push_back(std::make_unique<TestPage>(i % 3 == 0 ? *large : *small, 1, i));
    driver.submit(pages.back()->write(i, i % 7 == 0));
  }
  for (uint64_t i = 0; i < kPages; ++i) {
    const StoreDone done = driver.next();
    ASSERT_EQ(done.op, StoreOp::kWrite);
    ASSERT_EQ(done.status, Code::kOk);
    ASSERT_LT(done.token, kPages);
    EXPECT_TRUE(locations.emplace(done.token, done.location).second) << "done twice";
  }
  std::vector<PageMemory> into;
  std::set<uint64_t> read;
  for (uint64_t i = 0; i < kPages; ++i) {
    into.push_back(page_memory(pages[i]->page_bytes));
    driver.submit(read_command(i, locations[i], into[i].get(), pages[i]->page_bytes));
  }
  for (uint64_t i = 0; i < kPages; ++i) {
    const StoreDone done = driver.next();
    ASSERT_EQ(done.op, StoreOp::kRead);
    ASSERT_EQ(done.status, Code::kOk);
    EXPECT_TRUE(read.insert(done.token).second) << "done twice";
    EXPECT_TRUE(pages[done.token]->same_bytes(into[done.token].get()));
    EXPECT_TRUE(pages[done.token]->same_record(*done.record));
  }
  for (int i = 0; i < 4; ++i) driver.store().step();
  StoreDone extra;
  EXPECT_FALSE(driver.store().poll(extra));
}

TEST_P(StoreConformance, AFullQueueTakesNothing) {
  const auto subject = GetParam()();
  StoreDriver driver(subject->open());
  const auto memory = page_memory(4096);
  size_t taken = 0;
  while (taken < 10'000 && driver.store().submit(read_command(taken, {99, 0}, memory.get(), 4096)))
    ++taken;
  EXPECT_GE(taken, 1u);
  EXPECT_LE(taken, 64u);
  for (size_t i = 0; i < taken; ++i) EXPECT_EQ(driver.next().status, Code::kMiss);
  EXPECT_TRUE(driver.store().submit(read_command(1, {99, 0}, memory.get(), 4096)));
  EXPECT_EQ(driver.next().token, 1u);
}

TEST_P(StoreConformance, AFlushIsDoneAfterTheWritesBeforeIt) {
  const auto subject = GetParam()();
  StoreDriver driver(subject->open());
  const auto space = make_namespace("m", 20'000);
  std::vector<std::unique_ptr<TestPage>> pages;
  for (uint64_t i = 0; i < 20; ++i) {
    pages.push_back(std::make_unique<TestPage>(*space, 1, i));
    driver.submit(pages.back()->write(i));
  }
  StoreCommand flush;
  flush.op = StoreOp::kFlush;
  flush.token = 100;
  driver.submit(std::move(flush));
  for (uint64_t i = 0; i < 20; ++i) EXPECT_EQ(driver.next().op, StoreOp::kWrite);
  const StoreDone done = driver.next();
  EXPECT_EQ(done.op, StoreOp::kFlush);
  EXPECT_EQ(done.token, 100u);
  EXPECT_EQ(done.status, Code::kOk);
}

TEST_P(StoreConformance, PagesOverManySegmentsAllSurvive) {
  const auto subject = GetParam()();
  const auto space = make_namespace("m", 900'000);
  std::set<uint64_t> segments;
  constexpr uint64_t kPages = 24;
  {
    StoreDriver driver(subject->open());
    for (uint64_t i = 0; i < kPages; ++i) {
      const StoreDone done = driver.write(TestPage(*space, 1, i), true);
      ASSERT_EQ(done.status, Code::kOk);
      segments.insert(done.location.segment);
    }
  }
  EXPECT_GT(segments.size(), 2u);
  StoreDriver driver(subject->open());
  size_t pages = 0;
  for (const auto& segment : driver.scan()) pages += segment->pages.size();
  EXPECT_EQ(pages, kPages);
}

TEST_P(StoreConformance, AnIdleStoreAsksForNoPolling) {
  const auto subject = GetParam()();
  StoreDriver driver(subject->open());
  const auto space = make_namespace("m", 4096);
  ASSERT_EQ(driver.write(TestPage(*space, 1, 1)).status, Code::kOk);
  while (driver.store().step()) {
  }
  EXPECT_FALSE(driver.store().must_poll());
  EXPECT_FALSE(driver.store().has_work());
}

TEST_P(StoreConformance, AWorkerThreadServesTheConductorsSide) {
  const auto subject = GetParam()();
  const auto store = subject->open();
  const auto space = make_namespace("m", 10'000);
  std::vector<std::unique_ptr<TestPage>> pages;
  for (uint64_t i = 0; i < 32; ++i) pages.push_back(std::make_unique<TestPage>(*space, 1, i));
  WorkerThread thread(*store, "store");
  for (uint64_t i = 0; i < 32; ++i) ASSERT_TRUE(store->submit(pages[i]->write(i)));
  std::set<uint64_t> done_tokens;
  StoreDone done;
  while (done_tokens.size() < 32) {
    if (!store->poll(done)) continue;
    EXPECT_EQ(done.status, Code::kOk);
    EXPECT_TRUE(done_tokens.insert(done.token).second);
  }
  thread.stop();
}

}  // namespace
}  // namespace kvsidecar
