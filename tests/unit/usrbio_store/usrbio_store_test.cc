// SPDX-License-Identifier: Apache-2.0
// Goal: on a mount that is well, pages go through the rings, from and into registered memory, and
// what can't be opened says why and leaves nothing. Method: a fake mount, all in one thread.
#include "tests/unit/usrbio_store/usrbio_fixture.h"

namespace kvsidecar::testing {
namespace {

// Memory in a file, as the host pool's chunks are.
struct Region {
  explicit Region(const std::string& directory)
      : block(SharedBlock::create(directory, "pool", 7, 1 << 20).take()) {}
  std::unique_ptr<SharedBlock> block;
};

TEST_F(UsrbioStoreTest, PagesGoThroughTheRings) {
  open();
  const TestPage page(*space_, 1, 1);
  const size_t before = mount_.prepared;
  const StoreDone written = write(page);
  ASSERT_EQ(written.status, Code::kOk);
  EXPECT_GT(mount_.prepared, before);
  EXPECT_EQ(read(page, written.location).status, Code::kOk);
  const auto& reads = store_->usrbio_counters().classes[0];
  EXPECT_GE(reads.bytes.load(), page.page_bytes);
  EXPECT_GE(reads.staged_bytes.load(), page.page_bytes) << "its memory isn't registered";
}

TEST_F(UsrbioStoreTest, ARegisteredChunkIsReadWithoutACopy) {
  open();
  const Region chunk(options_.shm_directory);
  const auto memory = chunk.block->bytes();
  ASSERT_TRUE(store_->register_memory(chunk.block->path(), memory));
  ASSERT_TRUE(
      eventually([&] { return store_->usrbio_counters().registered_bytes == memory.size(); }));
  const TestPage page(*space_, 1, 1);
  const StoreLocation at = write(page).location;
  const uint64_t staged = store_->usrbio_counters().classes[0].staged_bytes;
  ASSERT_EQ(run(read_command(at, memory.data(), page.page_bytes)).status, Code::kOk);
  EXPECT_TRUE(page.same_bytes(memory.data()));
  EXPECT_EQ(store_->usrbio_counters().classes[0].staged_bytes, staged);
}

TEST_F(UsrbioStoreTest, AChunkThatTheFuseDaemonCantUseIsSaidOnceAndCopied) {
  open();
  const Region useless(options_.shm_directory);
  mount_.useless_memory.insert(useless.block->path());
  ASSERT_TRUE(store_->register_memory(useless.block->path(), useless.block->bytes()));
  ASSERT_TRUE(eventually([&] { return store_->usrbio_counters().refused_memories == 1; }));
  EXPECT_TRUE(logged(useless.block->path()));
  EXPECT_TRUE(logged("LimitMEMLOCK"));
  const TestPage page(*space_, 1, 1);
  const StoreLocation at = write(page).location;
  const auto memory = useless.block->bytes();
  EXPECT_EQ(run(read_command(at, memory.data(), page.page_bytes)).status, Code::kOk);
  EXPECT_TRUE(page.same_bytes(memory.data()));
}

TEST_F(UsrbioStoreTest, AChunkThatCantBeRegisteredIsSaidOnceAndCopied) {
  open();
  const Region refused(options_.shm_directory);
  mount_.refused_memory.insert(refused.block->path());
  ASSERT_TRUE(store_->register_memory(refused.block->path(), refused.block->bytes()));
  ASSERT_TRUE(eventually([&] { return store_->usrbio_counters().refused_memories == 1; }));
  EXPECT_TRUE(logged("copied once more"));
}

// A write is durable there when it is done; a sync would only settle the file's length.
TEST_F(UsrbioStoreTest, ADurablePageWaitsForNoSync) {
  open();
  const StoreDone written = write(TestPage(*space_, 1, 1), true);
  EXPECT_EQ(written.status, Code::kOk);
  EXPECT_EQ(faults_.calls("store.fsync"), 0u);
  EXPECT_EQ(faults_.calls("store.allocate"), 0u);
}

TEST_F(UsrbioStoreTest, APrefetchHasARingOfItsOwn) {
  open();
  const TestPage page(*space_, 1, 1);
  const StoreLocation at = write(page).location;
  const auto memory = page_memory(page.page_bytes);
  StoreCommand command = read_command(at, memory.get(), page.page_bytes);
  command.prefetch = true;
  const uint64_t demanded = store_->usrbio_counters().classes[0].bytes;
  EXPECT_EQ(run(std::move(command)).status, Code::kOk);
  EXPECT_EQ(store_->usrbio_counters().classes[0].bytes, demanded);
  EXPECT_GE(store_->usrbio_counters().classes[1].bytes.load(), page.page_bytes);
}

TEST_F(UsrbioStoreTest, ALostReadDoesNotStopItsClass) {
  options_.lost_ns = 10'000'000'000;
  open();
  const TestPage page(*space_, 1, 1);
  const StoreLocation at = write(page).location;
  mount_.mode = FakeMount::Mode::kByHand;
  const auto memory = page_memory(page.page_bytes);
  const auto slow = read_command(at, memory.get(), page.page_bytes);
  const uint64_t slow_token = slow.token;
  ASSERT_TRUE(store_->submit(StoreCommand(slow)));
  ASSERT_TRUE(eventually([&] { return !mount_.pending.empty(); }));
  clock_.advance(options_.lost_ns);
  ASSERT_TRUE(eventually([&] { return store_->usrbio_counters().classes[0].quarantined == 1; }));
  // Its ring takes nothing until the lost one ends, so the class is given another.
  mount_.prepare_error = [&] { return mount_.rings == 3 ? -EAGAIN : 0; };
  clock_.advance(options_.files.breaker.backoff_ns);
  mount_.mode = FakeMount::Mode::kAtPoll;
  const auto lost = std::exchange(mount_.pending, {});
  ASSERT_TRUE(eventually([&] { return store_->counters().breaker_open == false; }));
  const StoreDone done = read(page, at);
  EXPECT_EQ(done.status, Code::kOk);
  EXPECT_EQ(store_->usrbio_counters().rings_replaced, 1u);
  // It ends after all: once, with the location's bytes or as an error, and its memory is free.
  for (const FakeIo& io : lost) mount_.repeat(io.ring, io.user, -EIO);
  ASSERT_TRUE(eventually([&] { return poll(); }));
  EXPECT_EQ(done_.token, slow_token);
  EXPECT_EQ(done_.status, Code::kIoError);
  EXPECT_EQ(store_->usrbio_counters().classes[0].quarantined, 0u);
}

TEST_F(UsrbioStoreTest, ItSaysWhatItIsAndWhy) {
  options_.why = "auto: the root lies on 3FS";
  open();
  EXPECT_EQ(store_->describe(), "usrbio (fake, " + root_ + "; auto: the root lies on 3FS)");
}

TEST_F(UsrbioStoreTest, ARootThatLiesOnNo3fsIsRefusedWithTheRemedy) {
  mount_.mounted = false;
  const auto opened = try_open();
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status().code(), Code::kInvalid);
  EXPECT_NE(opened.status().text().find("lies on no 3FS mount; mount 3FS there"),
            std::string::npos);
  EXPECT_TRUE(std::filesystem::is_empty(root_));
}

TEST_F(UsrbioStoreTest, BuffersThatTheFuseDaemonCantUseAreFoundAtTheStart) {
  mount_.useless_memory.insert(options_.shm_directory + "/kvsidecar.test.bounce-0");
  const auto opened = try_open();
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status().code(), Code::kDenied);
  EXPECT_NE(opened.status().text().find("give it the same /dev/shm"), std::string::npos);
  EXPECT_EQ(shm_files(), 0u);
}

// Each call of the mount thread fails in turn; what was made before it goes again.
TEST_F(UsrbioStoreTest, WhateverFailsAtTheStartLeavesNothing) {
  const auto open_fds = [] {
    const auto fds = std::filesystem::directory_iterator("/proc/self/fd");
    return std::distance(begin(fds), end(fds));
  };
  const auto before = open_fds();
  int failing = 1;
  for (; failing < 50; ++failing) {
    int calls = 0;
    mount_.fails = [&](const char*) { return ++calls == failing; };
    const auto opened = try_open();
    if (opened.ok()) break;
    EXPECT_EQ(mount_.clients + mount_.rings + mount_.memories + mount_.files, 0) << failing;
    EXPECT_EQ(shm_files(), 0u) << failing;
    EXPECT_EQ(open_fds(), before) << failing;
    EXPECT_FALSE(opened.status().text().empty());
  }
  EXPECT_GT(failing, 6);
  EXPECT_LT(failing, 50);
  EXPECT_EQ(mount_.clients + mount_.rings + mount_.memories + mount_.files, 0);
}

TEST_F(UsrbioStoreTest, ClosingLeavesNothing) {
  open();
  ASSERT_EQ(write(TestPage(*space_, 1, 1)).status, Code::kOk);
  store_.reset();
  EXPECT_EQ(mount_.clients + mount_.rings + mount_.memories + mount_.files, 0);
  EXPECT_EQ(shm_files(), 0u);
  EXPECT_TRUE(mount_.registered_fds.empty());
}

TEST_F(UsrbioStoreTest, WhatClosingWritesIsFoundAgain) {
  open();
  const TestPage page(*space_, 1, 1);
  const StoreLocation at = write(page).location;
  const uint64_t used = store_->used_bytes();
  store_.reset();
  open();
  ASSERT_TRUE(run(scan_command()).found);
  ASSERT_TRUE(eventually([&] { return poll(); }));
  EXPECT_FALSE(done_.found);
  EXPECT_EQ(read(page, at).status, Code::kOk);
  EXPECT_LE(store_->used_bytes(), used);
}

TEST_F(UsrbioStoreTest, TheBuffersOfADeadDaemonAreRemoved) {
  const std::string left = options_.shm_directory + "/kvsidecar.test.bounce-3";
  ASSERT_GE(UniqueFd(::open(left.c_str(), O_CREAT | O_RDWR, 0600)).get(), 0);
  // One that somebody has locked is in use.
  const auto used = SharedBlock::create(options_.shm_directory, "test", 9, 4096).take();
  open();
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_TRUE(std::filesystem::exists(used->path()));
}

}  // namespace
}  // namespace kvsidecar::testing
