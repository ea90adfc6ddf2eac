// SPDX-License-Identifier: Apache-2.0
// What the tests of FileStore share: a folder of its own, faults by script, a clock that only the
// test moves.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sidecar/store/file_store.h"
#include "sidecar/store/segment_format.h"
#include "tests/conformance/store/store_subject.h"

namespace kvsidecar {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    const char* base = std::getenv("TMPDIR");
    path_ = std::string(base == nullptr ? "/tmp" : base) + "/kvsidecar-unit-XXXXXX";
    KV_CHECK(::mkdtemp(path_.data()) != nullptr);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class ScriptedFaults final : public FaultPoints {
 public:
  // After `skip` calls at that point, the next `count` fail with `error`.
  void set(const std::string& point, int error, uint64_t count = ~uint64_t{0}, uint64_t skip = 0) {
    scripts_[point] = {error, count, skip};
  }
  void clear() { scripts_.clear(); }
  uint64_t calls(const std::string& point) { return calls_[point]; }
  int fail(std::string_view point) override {
    const std::string name(point);
    ++calls_[name];
    const auto at = scripts_.find(name);
    if (at == scripts_.end()) return 0;
    Script& script = at->second;
    if (script.skip > 0) {
      --script.skip;
      return 0;
    }
    if (script.count == 0) return 0;
    --script.count;
    return script.error;
  }

 private:
  struct Script {
    int error;
    uint64_t count, skip;
  };
  std::map<std::string, Script> scripts_;
  std::map<std::string, uint64_t> calls_;
};

class ManualClock final : public Clock {
 public:
  uint64_t now_ns() override { return now_ns_; }
  uint64_t wall_ms() override { return 1'700'000'000'000 + now_ns_ / 1'000'000; }
  void advance(uint64_t ns) { now_ns_ += ns; }

 private:
  uint64_t now_ns_ = 1'000'000'000;
};

class FileStoreTest : public ::testing::Test {
 protected:
  FileStoreTest() {
    options_.root = options_.state_directory = folder_.path();
    options_.segment_bytes = 4 << 20;
  }
  std::unique_ptr<FileStore> make() {
    auto store =
        FileStore::open(options_, clock_, faults_,
                        [this](StoreLogLevel, std::string_view cause, const std::string& text) {
                          log_.push_back(std::string(cause) + ": " + text);
                        });
    if (!store) ADD_FAILURE() << store.status().text();
    return store.take();
  }
  void open() {
    driver_.reset();
    auto store = make();
    file_store_ = store.get();
    driver_ = std::make_unique<StoreDriver>(std::move(store));
  }
  void close() { driver_.reset(); }
  Code read(const TestPage& page, StoreLocation at) {
    const auto memory = page_memory(page.page_bytes);
    const StoreDone done = driver_->read(at, page.page_bytes, memory.get());
    if (done.status == Code::kOk) {
      EXPECT_TRUE(page.same_bytes(memory.get()));
      EXPECT_TRUE(page.same_record(*done.record));
    }
    return done.status;
  }
  size_t found_pages() {
    size_t pages = 0;
    for (const auto& segment : driver_->scan()) pages += segment->pages.size();
    return pages;
  }
  // Turns the store until the condition holds; what no command reports takes its time.
  bool eventually(const std::function<bool()>& condition) {
    for (int turns = 0; turns < 400 && !condition(); ++turns) driver_->turn();
    return condition();
  }
  std::string path_of(uint64_t segment) {
    return file_store_->folder() + "/" + segment_name(segment);
  }
  size_t segment_files() {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(file_store_->folder()))
      count += segment_from_name(entry.path().filename().string()) != 0 ? 1 : 0;
    return count;
  }
  bool logged(const std::string& part) const {
    for (const std::string& line : log_)
      if (line.find(part) != std::string::npos) return true;
    return false;
  }

  TemporaryFolder folder_;
  FileStoreOptions options_;
  ManualClock clock_;
  ScriptedFaults faults_;
  std::vector<std::string> log_;
  FileStore* file_store_ = nullptr;
  std::unique_ptr<StoreDriver> driver_;
};

}  // namespace kvsidecar
