// SPDX-License-Identifier: Apache-2.0
// Goal: a mount that goes costs misses, never an engine's step, a wrong byte or a buffer that is
// still written; and when it is back, its pages are. Method: a fake mount that dies and comes back
// when the test says so, a clock of the test's own.
#include "sidecar/store/segment_format.h"
#include "tests/unit/usrbio_store/usrbio_fixture.h"

namespace kvsidecar::testing {
namespace {

class UsrbioLostTest : public UsrbioStoreTest {
 protected:
  void refused(const StoreDone& done, Code code) {
    EXPECT_EQ(done.status, code);
    EXPECT_TRUE(done.breaker_open);
  }
  std::string file_of(StoreLocation at) {
    return store_->folder() + "/" + segment_name(at.segment);
  }
};

TEST_F(UsrbioLostTest, OnALostMountCommandsEndAtOnce) {
  open();
  const TestPage page(*space_, 1, 1);
  const StoreLocation at = write(page).location;
  lose();
  const size_t before = mount_.prepared;
  refused(read(page, at), Code::kIoError);
  refused(write(TestPage(*space_, 1, 2)), Code::kNotStored);
  StoreCommand flush;
  flush.op = StoreOp::kFlush;
  EXPECT_EQ(run(std::move(flush)).status, Code::kIoError);
  EXPECT_EQ(mount_.prepared, before);
  EXPECT_TRUE(logged("is gone"));
  EXPECT_NE(store_->describe().find("the mount is lost"), std::string::npos);
}

TEST_F(UsrbioLostTest, WhatWasInFlightEndsAfterTheGraceTimeOnly) {
  open();
  const TestPage page(*space_, 1, 1);
  const StoreLocation at = write(page).location;
  mount_.mode = FakeMount::Mode::kByHand;
  const auto memory = page_memory(page.page_bytes);
  submit(read_command(at, memory.get(), page.page_bytes));
  ASSERT_TRUE(eventually([&] { return !mount_.pending.empty(); }));
  lose();
  clock_.advance(options_.grace_ns - 1);
  for (int i = 0; i < 20; ++i) turn();
  EXPECT_FALSE(poll()) << "it may still be written";
  clock_.advance(1);
  ASSERT_TRUE(eventually([&] { return poll(); }));
  refused(done_, Code::kIoError);
  mount_.pending.clear();
}

TEST_F(UsrbioLostTest, AWriteInFlightIsNotStored) {
  open();
  ASSERT_EQ(write(TestPage(*space_, 1, 1)).status, Code::kOk);
  mount_.mode = FakeMount::Mode::kByHand;
  const TestPage page(*space_, 1, 2);
  submit(page.write(++token_));
  ASSERT_TRUE(eventually([&] { return !mount_.pending.empty(); }));
  lose();
  clock_.advance(options_.grace_ns);
  ASSERT_TRUE(eventually([&] { return poll(); }));
  EXPECT_EQ(done_.status, Code::kNotStored);
  mount_.pending.clear();
}

TEST_F(UsrbioLostTest, WhenTheMountIsBackItsPagesAreFoundAgain) {
  open();
  const auto packed = make_namespace("small", 3000);
  const TestPage page(*space_, 1, 1), small(*packed, 1, 2);
  const StoreLocation at = write(page).location, small_at = write(small).location;
  lose();
  bring_back();
  ASSERT_TRUE(eventually([&] { return is_up(); }));
  EXPECT_EQ(read(page, at).status, Code::kOk);
  EXPECT_EQ(read(small, small_at).status, Code::kOk);
  EXPECT_TRUE(logged("back in use"));
  // A new epoch: no location is used twice.
  const StoreDone later = write(TestPage(*space_, 1, 3));
  EXPECT_EQ(later.status, Code::kOk);
  EXPECT_GT(later.location.segment >> 32, at.segment >> 32);
  EXPECT_EQ(store_->describe(), "usrbio (fake, " + root_ + ")");
}

TEST_F(UsrbioLostTest, APageThatVanishedMeanwhileIsAMiss) {
  open();
  const TestPage page(*space_, 1, 1);
  const StoreLocation at = write(page).location;
  lose();
  std::filesystem::remove(file_of(at));
  bring_back();
  ASSERT_TRUE(eventually([&] { return is_up(); }));
  EXPECT_EQ(read(page, at).status, Code::kMiss);
}

TEST_F(UsrbioLostTest, ItComesBackAsOftenAsItGoes) {
  open();
  std::vector<std::pair<std::unique_ptr<TestPage>, StoreLocation>> pages;
  for (uint64_t life = 1; life <= 4; ++life) {
    pages.emplace_back(std::make_unique<TestPage>(*space_, 1, life), StoreLocation{});
    pages.back().second = write(*pages.back().first).location;
    lose();
    bring_back();
    ASSERT_TRUE(eventually([&] { return is_up(); }));
    for (const auto& [page, at] : pages) EXPECT_EQ(read(*page, at).status, Code::kOk) << life;
  }
  EXPECT_EQ(store_->usrbio_counters().mounts_lost, 4u);
  EXPECT_EQ(mount_.clients, 1);
  EXPECT_EQ(mount_.rings, 3);
  EXPECT_EQ(shm_files(), 1u);
}

TEST_F(UsrbioLostTest, UntilItsDirectoriesAreReadAReadSaysNothingAboutThePage) {
  open();
  const TestPage page(*space_, 1, 1);
  const StoreLocation at = write(page).location;
  lose();
  bring_back();
  ASSERT_TRUE(eventually([&] { return mount_.clients == 1 && !mount_.registered_fds.empty(); }));
  if (!is_up()) refused(read(page, at), Code::kIoError);
}

TEST_F(UsrbioLostTest, ADirectoryInPlaceOfTheMountIsNotTouched) {
  open();
  ASSERT_EQ(write(TestPage(*space_, 1, 1)).status, Code::kOk);
  lose();
  // With the fuse daemon its mount is gone; what is left is an empty directory.
  std::filesystem::rename(root_, root_ + ".3fs");
  std::filesystem::create_directory(root_);
  mount_.alive = true;
  clock_.advance(options_.grace_ns);
  for (int attempt = 0; attempt < 5; ++attempt) {
    for (int i = 0; i < 20; ++i) turn();
    clock_.advance(20'000'000'000);
  }
  EXPECT_TRUE(std::filesystem::is_empty(root_));
  EXPECT_TRUE(logged("lies on no 3FS mount"));
  EXPECT_FALSE(is_up());
  std::filesystem::remove(root_);
  std::filesystem::rename(root_ + ".3fs", root_);
  mount_.mounted = true;
  clock_.advance(20'000'000'000);
  EXPECT_TRUE(eventually([&] { return is_up(); }));
}

TEST_F(UsrbioLostTest, AScanWaitsForTheMount) {
  open();
  ASSERT_EQ(write(TestPage(*space_, 1, 1)).status, Code::kOk);
  lose();
  submit(scan_command());
  for (int i = 0; i < 20; ++i) turn();
  EXPECT_FALSE(poll());
  bring_back();
  ASSERT_TRUE(eventually([&] { return poll(); }));
  ASSERT_TRUE(done_.found);
  EXPECT_EQ(done_.segment->pages.size(), 1u);
  EXPECT_EQ(done_.token, token_);
  ASSERT_TRUE(eventually([&] { return poll(); }));
  EXPECT_FALSE(done_.found);
  EXPECT_EQ(done_.status, Code::kOk);
}

TEST_F(UsrbioLostTest, AScanThatLosesItsMountTellsEachSegmentOnce) {
  open();
  std::vector<std::unique_ptr<NamespaceInfo>> spaces;
  for (uint64_t i = 0; i < 6; ++i) {
    spaces.push_back(make_namespace("m" + std::to_string(i), 100'000));
    ASSERT_EQ(write(TestPage(*spaces.back(), 1, i)).status, Code::kOk);
  }
  submit(scan_command());
  std::set<uint64_t> told;
  ASSERT_TRUE(eventually([&] { return poll(); }));
  ASSERT_TRUE(done_.found);
  told.insert(done_.segment->segment);
  lose();
  bring_back();
  ASSERT_TRUE(eventually([&] {
    if (!poll()) return false;
    EXPECT_TRUE(!done_.found || told.insert(done_.segment->segment).second) << "told twice";
    return !done_.found;
  }));
  EXPECT_EQ(told.size(), 6u);
}

TEST_F(UsrbioLostTest, TheHostPoolIsRegisteredAnew) {
  open();
  const auto chunk = SharedBlock::create(options_.shm_directory, "pool", 1, 1 << 20).take();
  ASSERT_TRUE(store_->register_memory(chunk->path(), chunk->bytes()));
  const auto registered = [&] { return store_->usrbio_counters().registered_bytes.load(); };
  ASSERT_TRUE(eventually([&] { return registered() == chunk->bytes().size(); }));
  lose();
  EXPECT_EQ(registered(), 0u);
  bring_back();
  EXPECT_TRUE(eventually([&] { return registered() == chunk->bytes().size(); }));
}

TEST_F(UsrbioLostTest, AMountThatHangsIsNotLostAndComesBackByItself) {
  open();
  const TestPage page(*space_, 1, 1);
  const StoreLocation at = write(page).location;
  thread_runs_ = false;
  clock_.advance(options_.heartbeat_ns);
  turn();
  clock_.advance(options_.hung_ns);
  turn();
  EXPECT_TRUE(logged("does not answer"));
  turn();
  EXPECT_TRUE(store_->counters().breaker_open);
  const auto memory = page_memory(page.page_bytes);
  submit(read_command(at, memory.get(), page.page_bytes));
  ASSERT_TRUE(eventually([&] { return poll(); })) << "it must not wait for the mount";
  refused(done_, Code::kIoError);
  thread_runs_ = true;
  clock_.advance(options_.files.breaker.backoff_ns);
  EXPECT_TRUE(eventually([&] { return !store_->counters().breaker_open; }));
  EXPECT_TRUE(logged("answers again"));
  EXPECT_EQ(read(page, at).status, Code::kOk);
  EXPECT_EQ(store_->usrbio_counters().mounts_lost, 0u);
}

TEST_F(UsrbioLostTest, AReadThatSaysNotConnectedAsksTheMountAtOnce) {
  open();
  const TestPage page(*space_, 1, 1);
  const StoreLocation at = write(page).location;
  mount_.prepare_error = [] { return -ENOTCONN; };
  EXPECT_EQ(read(page, at).status, Code::kIoError);
  mount_.alive = mount_.mounted = false;
  mount_.prepare_error = nullptr;
  // No time passes.
  EXPECT_TRUE(eventually([&] { return !is_up(); }));
}

// Its segment can't go on, and nobody may use the page's memory.
TEST_F(UsrbioLostTest, AWriteThatNeverEndsKeepsItsMemoryAndTheStoreBeginsAnew) {
  options_.lost_ns = 10'000'000'000;
  open();
  const TestPage page(*space_, 1, 1), lost(*space_, 1, 2);
  const StoreLocation at = write(page).location;
  mount_.mode = FakeMount::Mode::kByHand;
  submit(lost.write(++token_));
  const uint64_t lost_token = token_;
  ASSERT_TRUE(eventually([&] { return !mount_.pending.empty(); }));
  clock_.advance(options_.lost_ns);
  ASSERT_TRUE(eventually([&] { return !is_up(); }));
  EXPECT_TRUE(logged("has not ended in time"));
  EXPECT_FALSE(poll()) << "its memory is still written";
  const auto never = std::exchange(mount_.pending, {});
  mount_.mode = FakeMount::Mode::kAtPoll;
  clock_.advance(options_.reopen_ns);
  ASSERT_TRUE(eventually([&] { return is_up(); }));
  EXPECT_EQ(read(page, at).status, Code::kOk);
  EXPECT_EQ(write(TestPage(*space_, 1, 3)).status, Code::kOk);
  EXPECT_EQ(store_->usrbio_counters().classes[2].quarantined, 1u);
  EXPECT_EQ(store_->usrbio_counters().mounts_lost, 0u);
  // It ends with the mount at the latest.
  mount_.alive = false;
  clock_.advance(options_.heartbeat_ns);
  for (int i = 0; i < 20; ++i) turn();
  EXPECT_FALSE(poll());
  clock_.advance(options_.grace_ns);
  ASSERT_TRUE(eventually([&] { return poll(); }));
  EXPECT_EQ(done_.token, lost_token);
  EXPECT_EQ(done_.status, Code::kNotStored);
  EXPECT_EQ(store_->usrbio_counters().classes[2].quarantined, 0u);
  EXPECT_FALSE(never.empty());
}

TEST_F(UsrbioLostTest, WhatKeepsTheMountAwayIsSaidOnce) {
  open();
  lose();
  clock_.advance(options_.grace_ns);
  for (int attempt = 0; attempt < 6; ++attempt) {
    for (int i = 0; i < 20; ++i) turn();
    clock_.advance(20'000'000'000);
  }
  EXPECT_EQ(std::count_if(log_.begin(), log_.end(),
                          [](const std::string& line) {
                            return line.find("not back yet") != std::string::npos;
                          }),
            1);
}

}  // namespace
}  // namespace kvsidecar::testing
