// SPDX-License-Identifier: Apache-2.0
// Goal: the usrbio store outlives its fuse daemon: killed, restarted, stopped, replaced by a plain
// directory. Method: the builtin client against mini3fs, a FUSE server of its own process; the
// store is turned by the test, its mount thread runs. Every wait ends with what is waited for.
#include <filesystem>

#include "tests/conformance/store/usrbio_subject.h"
#include "tests/unit/store/store_fixture.h"
#include "tests/usrbio/mini3fs/fixture.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kPageBytes = 300'000;  // five chunks

class MountLossTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string missing = fake3fs::Mini3fs::missing();
    if (!missing.empty()) GTEST_SKIP() << missing;
    auto server = fake3fs::Mini3fs::start({.chunk_bytes = 64 << 10, .workers = 2, .more = {}});
    ASSERT_TRUE(server.ok()) << server.status().text();
    server_ = server.take();
    root_ = server_->mount() + "/root";
    std::filesystem::create_directory(root_);
    UsrbioStoreOptions options = usrbio_subject_options(
        root_, state_.path(), {&usrbio::open_builtin, &usrbio::mount_point_of});
    options.files.stripe_bytes = 64 << 10;
    options.files.breaker.backoff_ns = 10'000'000;
    options.heartbeat_ns = options.reopen_ns = 20'000'000;
    options.hung_ns = 200'000'000;
    options.grace_ns = 50'000'000;
    auto opened = UsrbioStore::open(options, real_clock(), no_faults(), nullptr);
    ASSERT_TRUE(opened.ok()) << opened.status().text();
    store_ = opened->get();
    driver_ = std::make_unique<StoreDriver>(opened.take());
  }
  // Turns the store until the condition holds; gives up after a generous deadline.
  bool eventually(const std::function<bool()>& condition) {
    const uint64_t deadline_ns = real_clock().now_ns() + 60'000'000'000;
    while (!condition()) {
      if (real_clock().now_ns() > deadline_ns) return false;
      driver_->turn();
    }
    return true;
  }
  StoreDone read(const TestPage& page, StoreLocation at) {
    const auto memory = page_memory(page.page_bytes);
    StoreDone done = driver_->read(at, page.page_bytes, memory.get());
    EXPECT_TRUE(done.status != Code::kOk || page.same_bytes(memory.get()));
    return done;
  }
  bool is_up() const { return store_->usrbio_counters().up; }

  std::unique_ptr<fake3fs::Mini3fs> server_;
  std::string root_;
  TemporaryFolder state_;
  std::unique_ptr<StoreDriver> driver_;
  UsrbioStore* store_ = nullptr;
  std::unique_ptr<NamespaceInfo> space_ = make_namespace("m", kPageBytes);
};

TEST_F(MountLossTest, AKilledServerCostsMissesAndARestartedOneBringsThePagesBack) {
  const TestPage page(*space_, 1, 1), later(*space_, 1, 2);
  const StoreLocation at = driver_->write(page, true).location;
  for (int life = 0; life < 3; ++life) {
    server_->kill();
    ASSERT_TRUE(eventually([&] { return !is_up(); })) << store_->describe();
    const StoreDone refused = read(page, at);
    EXPECT_EQ(refused.status, Code::kIoError);
    EXPECT_TRUE(refused.breaker_open);
    EXPECT_EQ(driver_->write(later).status, Code::kNotStored);
    ASSERT_TRUE(server_->restart().ok());
    ASSERT_TRUE(eventually([&] { return is_up(); })) << store_->describe();
    EXPECT_EQ(read(page, at).status, Code::kOk);
    EXPECT_EQ(driver_->write(later).status, Code::kOk);
  }
}

TEST_F(MountLossTest, ReadsInFlightEndWithTheirServer) {
  std::vector<std::unique_ptr<TestPage>> pages;
  std::vector<StoreLocation> at;
  for (uint64_t i = 0; i < 8; ++i) {
    pages.push_back(std::make_unique<TestPage>(*space_, 1, i));
    at.push_back(driver_->write(*pages.back()).location);
  }
  std::vector<PageMemory> memory;
  for (uint64_t i = 0; i < 8; ++i) {
    memory.push_back(page_memory(kPageBytes));
    StoreCommand command;
    command.op = StoreOp::kRead;
    command.token = i;
    command.location = at[i];
    command.page = memory.back().get();
    command.page_bytes = kPageBytes;
    driver_->submit(std::move(command));
  }
  driver_->turn();
  server_->kill();
  for (uint64_t i = 0; i < 8; ++i) {
    const StoreDone done = driver_->next();
    EXPECT_TRUE(done.status == Code::kIoError ||
                pages[done.token]->same_bytes(memory[done.token].get()));
  }
}

TEST_F(MountLossTest, WhereTheMountWasNothingIsMade) {
  const TestPage page(*space_, 1, 1);
  const StoreLocation at = driver_->write(page).location;
  server_->kill();
  server_->detach();
  std::filesystem::create_directory(root_);
  ASSERT_TRUE(eventually([&] { return !is_up(); }));
  EXPECT_EQ(driver_->write(TestPage(*space_, 1, 2)).status, Code::kNotStored);
  // Long enough for several attempts.
  const uint64_t until_ns = real_clock().now_ns() + 500'000'000;
  eventually([&] { return real_clock().now_ns() > until_ns; });
  EXPECT_TRUE(std::filesystem::is_empty(root_));
  EXPECT_FALSE(is_up());
  std::filesystem::remove(root_);
  ASSERT_TRUE(server_->restart().ok());
  ASSERT_TRUE(eventually([&] { return is_up(); })) << store_->describe();
  EXPECT_EQ(read(page, at).status, Code::kOk);
}

TEST_F(MountLossTest, AStoppedServerStopsNobodyAndGoesOn) {
  const TestPage page(*space_, 1, 1);
  const StoreLocation at = driver_->write(page).location;
  server_->stop_process();
  ASSERT_TRUE(eventually([&] { return store_->counters().breaker_open.load(); }));
  const StoreDone refused = read(page, at);
  EXPECT_TRUE(refused.breaker_open);
  server_->continue_process();
  ASSERT_TRUE(eventually([&] { return !store_->counters().breaker_open; })) << store_->describe();
  EXPECT_EQ(read(page, at).status, Code::kOk);
  EXPECT_EQ(store_->usrbio_counters().mounts_lost, 0u);
}

}  // namespace
}  // namespace kvsidecar
