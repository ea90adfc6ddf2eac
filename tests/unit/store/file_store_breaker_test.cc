// SPDX-License-Identifier: Apache-2.0
// Goal: a store that stalls or fails answers at once with misses, never twice, and heals by itself.
// Method: completions are withheld, the clock is moved by hand.
#include <cerrno>

#include "tests/unit/store/store_fixture.h"

namespace kvsidecar {
namespace {

class FileStoreBreaker : public FileStoreTest {
 protected:
  void SetUp() override {
    options_.breaker = {.stall_ns = 1'000'000'000, .errors_in_row = 4, .backoff_ns = 1'000'000'000};
    open();
    at_ = driver_->write(page_).location;
  }
  StoreCommand read_command(uint64_t token, std::byte* into) {
    StoreCommand command;
    command.op = StoreOp::kRead;
    command.token = token;
    command.location = at_;
    command.page = into;
    command.page_bytes = page_.page_bytes;
    return command;
  }
  bool heals() {
    for (int i = 0; i < 2000 && file_store_->counters().breaker_open.load(); ++i) driver_->turn();
    return !file_store_->counters().breaker_open.load();
  }

  std::unique_ptr<NamespaceInfo> space_ = make_namespace("m", 70'000);
  TestPage page_{*space_, 1, 1};
  StoreLocation at_;
};

// O5-10: the late bytes go where the stalled read was to put them, and it ends once.
// O5-15: what hangs is left alone; others are misses at once.
TEST_F(FileStoreBreaker, AStallMakesReadsFailAtOnceAndTheStalledOneEndsOnce) {
  const auto stalled = page_memory(page_.page_bytes), quick = page_memory(page_.page_bytes);
  faults_.set("store.stall", EIO);
  ASSERT_TRUE(file_store_->submit(read_command(1, stalled.get())));
  for (int i = 0; i < 5; ++i) file_store_->step();
  clock_.advance(999'000'000);
  file_store_->step();
  EXPECT_FALSE(file_store_->counters().breaker_open.load());
  clock_.advance(2'000'000);
  file_store_->step();
  EXPECT_TRUE(file_store_->counters().breaker_open.load());

  const StoreDone read = driver_->run(read_command(2, quick.get()));
  EXPECT_EQ(read.status, Code::kIoError);
  EXPECT_TRUE(read.breaker_open);
  EXPECT_EQ(driver_->write(page_).status, Code::kNotStored);

  faults_.clear();
  const StoreDone late = driver_->next();
  EXPECT_EQ(late.token, 1u);
  EXPECT_EQ(late.status, Code::kOk);
  EXPECT_TRUE(page_.same_bytes(stalled.get()));
  clock_.advance(1'000'000'000);
  EXPECT_TRUE(heals());
  EXPECT_EQ(this->read(page_, at_), Code::kOk);
  EXPECT_EQ(driver_->write(page_).status, Code::kOk);
  StoreDone extra;
  EXPECT_FALSE(file_store_->poll(extra));
}

TEST_F(FileStoreBreaker, WhatTheKernelHasNotGotYetFailsAtOnce) {
  faults_.set("store.stall", EIO);
  std::vector<PageMemory> memory;
  for (uint64_t i = 0; i < 100; ++i) {
    memory.push_back(page_memory(page_.page_bytes));
    ASSERT_TRUE(file_store_->submit(read_command(i, memory.back().get())));
  }
  for (int i = 0; i < 5; ++i) file_store_->step();
  clock_.advance(1'000'000'000);
  for (int i = 0; i < 5; ++i) file_store_->step();
  StoreDone done;
  size_t failed = 0;
  while (file_store_->poll(done)) {
    EXPECT_EQ(done.status, Code::kIoError);
    EXPECT_TRUE(done.breaker_open);
    ++failed;
  }
  EXPECT_EQ(failed, 100 - IoQueue::kDepth);
  faults_.clear();
  for (size_t i = failed; i < 100; ++i) EXPECT_EQ(driver_->next().status, Code::kOk);
}

// O5-07: no storm of retries, and full service after the burst.
TEST_F(FileStoreBreaker, ErrorsInARowOpenItWithoutFurtherIo) {
  faults_.set("store.read", EIO);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(read(page_, at_), Code::kIoError);
  file_store_->step();
  EXPECT_TRUE(file_store_->counters().breaker_open.load());
  const uint64_t calls = faults_.calls("store.read");
  for (int i = 0; i < 50; ++i) EXPECT_EQ(read(page_, at_), Code::kIoError);
  EXPECT_EQ(faults_.calls("store.read"), calls);
  EXPECT_EQ(driver_->write(page_).status, Code::kNotStored);
  clock_.advance(1'000'000'000);
  for (int i = 0; i < 20; ++i) driver_->turn();
  EXPECT_TRUE(file_store_->counters().breaker_open.load()) << "the probe failed as well";
  faults_.clear();
  clock_.advance(2'000'000'000);
  EXPECT_TRUE(heals());
  EXPECT_EQ(read(page_, at_), Code::kOk);
  EXPECT_EQ(file_store_->counters().breaker_trips.load(), 1u);
}

TEST_F(FileStoreBreaker, MissesAndCutFilesAreNotFailuresOfTheStore) {
  for (uint32_t i = 0; i < 20; ++i) EXPECT_EQ(read(page_, {at_.segment, 77}), Code::kMiss);
  EXPECT_EQ(read(page_, at_), Code::kOk);
}

TEST_F(FileStoreBreaker, WritesThatWaitFailWhenItOpens) {
  faults_.set("store.stall", EIO);
  for (uint64_t i = 0; i < 200; ++i) ASSERT_TRUE(file_store_->submit(page_.write(i)));
  for (int i = 0; i < 5; ++i) file_store_->step();
  clock_.advance(1'000'000'000);
  for (int i = 0; i < 5; ++i) file_store_->step();
  StoreDone done;
  size_t failed = 0;
  while (file_store_->poll(done)) {
    EXPECT_EQ(done.status, Code::kNotStored);
    ++failed;
  }
  EXPECT_GE(failed, 200 - IoQueue::kDepth);
  faults_.clear();
  for (size_t i = failed; i < 200; ++i) (void)driver_->next();
  EXPECT_FALSE(file_store_->poll(done));
}

}  // namespace
}  // namespace kvsidecar
