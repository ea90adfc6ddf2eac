// SPDX-License-Identifier: Apache-2.0
// A UsrbioStore over a fake mount, all in the test's thread: the mount thread, too, is turned by
// the test, and the clock moves only when the test says so.
#pragma once
#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <functional>
#include <set>
#include <vector>

#include "sidecar/store/usrbio/usrbio_store.h"
#include "tests/unit/store/store_fixture.h"
#include "tests/unit/usrbio_store/fake_client.h"

namespace kvsidecar::testing {

class UsrbioStoreTest : public ::testing::Test {
 protected:
  UsrbioStoreTest() {
    root_ = folder_.path() + "/root";
    std::filesystem::create_directory(root_);
    std::filesystem::create_directory(folder_.path() + "/shm");
    mount_.mount_point = root_;
    options_.files.root = root_;
    options_.files.state_directory = folder_.path();
    options_.files.segment_bytes = 4 << 20;
    options_.files.queue_capacity = 64;
    options_.shm_directory = folder_.path() + "/shm";
    options_.own_thread = false;
    options_.openers.client = [this](const std::string&) { return mount_.open(); };
    options_.openers.mount_point = [this](const std::string&) -> Result<std::string> {
      return mount_.mounted ? mount_.mount_point : "";
    };
  }
  ~UsrbioStoreTest() override {
    mount_.mode = FakeMount::Mode::kAtPoll;
    mount_.prepare_error = nullptr;
    // What the test left in flight ends when its ring is polled, or with its mount.
    thread_runs_ = true;
    for (int i = 0; i < 100 && store_ != nullptr; ++i) turn();
    clock_.advance(options_.grace_ns);
    store_.reset();
  }

  Result<std::unique_ptr<UsrbioStore>> try_open() {
    return UsrbioStore::open(
        options_, clock_, faults_,
        [this](StoreLogLevel, std::string_view, const std::string& text) { log_.push_back(text); });
  }
  void open() {
    auto opened = try_open();
    ASSERT_TRUE(opened.ok()) << opened.status().text();
    store_ = opened.take();
  }
  void turn() {
    if (thread_runs_) store_->mount_thread().run_one();
    store_->step();
  }
  bool eventually(const std::function<bool()>& condition) {
    for (int turns = 0; turns < 1000; ++turns) {
      if (condition()) return true;
      turn();
    }
    return false;
  }
  void submit(StoreCommand&& command) { ASSERT_TRUE(store_->submit(std::move(command))); }
  bool poll() { return store_->poll(done_); }
  StoreDone run(StoreCommand&& command) {
    submit(std::move(command));
    if (!eventually([&] { return poll(); })) ADD_FAILURE() << "no completion came";
    return std::move(done_);
  }
  StoreDone write(const TestPage& page, bool durable = false) {
    return run(page.write(++token_, durable));
  }
  StoreCommand read_command(StoreLocation at, std::byte* into, uint64_t bytes) {
    StoreCommand command;
    command.op = StoreOp::kRead;
    command.token = ++token_;
    command.location = at;
    command.page = into;
    command.page_bytes = bytes;
    return command;
  }
  StoreDone read(const TestPage& page, StoreLocation at) {
    const auto memory = page_memory(page.page_bytes);
    StoreDone done = run(read_command(at, memory.get(), page.page_bytes));
    EXPECT_TRUE(done.status != Code::kOk || page.same_bytes(memory.get()));
    return done;
  }
  StoreCommand scan_command() {
    StoreCommand command;
    command.op = StoreOp::kScan;
    command.token = ++token_;
    return command;
  }

  // The fuse daemon dies, and the next heartbeat finds it.
  void lose() {
    mount_.alive = mount_.mounted = false;
    clock_.advance(options_.heartbeat_ns);
    ASSERT_TRUE(eventually([&] { return !store_->usrbio_counters().up; }));
  }
  // Time enough for what was in flight to end and for another try.
  void bring_back() {
    mount_.alive = mount_.mounted = true;
    clock_.advance(options_.grace_ns);
    for (int i = 0; i < 20; ++i) turn();
    clock_.advance(options_.reopen_ns);
  }
  bool is_up() { return store_->usrbio_counters().up; }
  bool logged(const std::string& part) const {
    for (const std::string& line : log_)
      if (line.find(part) != std::string::npos) return true;
    return false;
  }
  size_t shm_files() {
    const auto files = std::filesystem::directory_iterator(options_.shm_directory);
    return static_cast<size_t>(std::distance(begin(files), end(files)));
  }

  TemporaryFolder folder_;
  std::string root_;
  FakeMount mount_;
  ManualClock clock_;
  ScriptedFaults faults_;
  UsrbioStoreOptions options_;
  std::vector<std::string> log_;
  std::unique_ptr<UsrbioStore> store_;
  StoreDone done_;
  bool thread_runs_ = true;
  uint64_t token_ = 0;
  std::unique_ptr<NamespaceInfo> space_ = make_namespace("m", 100'000);
};

}  // namespace kvsidecar::testing
