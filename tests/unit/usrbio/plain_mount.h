// SPDX-License-Identifier: Apache-2.0
// A plain folder that has what a 3FS mount shows: its folder of registrations and the semaphore
// that a submit posts. Nobody serves it. Also counts what a client may leave behind.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <semaphore.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "sidecar/store/usrbio/mount.h"
#include "tests/unit/usrbio/leftovers.h"

namespace kvsidecar::usrbio {

class PlainMountTest : public ::testing::Test {
 protected:
  void SetUp() override {
    sweep_dead_tests();
    point_ = "/tmp/" + test_name();
    std::filesystem::create_directories(point_ + "/3fs-virt/iovs");
    semaphore_ = "/dev/shm/sem." + test_name();
    const UniqueFd file(::open(semaphore_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    ASSERT_EQ(::ftruncate(file.get(), sizeof(sem_t)), 0);
    auto memory = MappedMemory::map(file.get(), 0, sizeof(sem_t), Access::kReadWrite);
    ASSERT_TRUE(memory.ok());
    submits_ = memory.take();
    ::sem_init(reinterpret_cast<sem_t*>(submits_.data()), 1, 0);
    point_submits_at(semaphore_);
    shared_ = "/dev/shm/" + test_name();
    std::ofstream(shared_) << std::string(8192, 'x');
  }
  void TearDown() override {
    for (const std::string& path : {point_, semaphore_, shared_}) {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
  }

  void point_submits_at(const std::string& target) {
    const std::string link = registry() + "/submit-ios";
    ::unlink(link.c_str());
    ASSERT_EQ(::symlink(target.c_str(), link.c_str()), 0);
  }
  std::string registry() const { return point_ + "/3fs-virt/iovs"; }
  std::shared_ptr<Mount> open_mount(FaultPoints& faults = no_faults()) {
    auto mount = Mount::open(point_, faults);
    EXPECT_TRUE(mount.ok()) << mount.status().text();
    return mount.take();
  }
  int submits() {
    int value = 0;
    ::sem_getvalue(reinterpret_cast<sem_t*>(submits_.data()), &value);
    return value;
  }
  // Names registered now, the semaphore's left out.
  std::set<std::string> keys() const {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(registry()))
      if (entry.path().filename() != "submit-ios") found.insert(entry.path().filename());
    return found;
  }
  static std::set<std::string> ring_files() {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
      if (entry.path().filename().string().starts_with("kvsidecar-ring."))
        found.insert(entry.path());
    return found;
  }
  static size_t open_files() {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
      count += !entry.path().empty();
    return count;
  }

  std::string point_, semaphore_;
  std::string shared_;  // 8192 bytes under /dev/shm
  MappedMemory submits_;
};

// Fails the nth question, whatever it is about; counts them.
class NthFault final : public FaultPoints {
 public:
  explicit NthFault(int nth) : left_(nth) {}
  int fail(std::string_view point) override {
    if (--left_ != 0) return 0;
    failed_ = point;
    return EIO;
  }
  const std::string& failed() const { return failed_; }  // empty: none was asked that late

 private:
  int left_;
  std::string failed_;
};

}  // namespace kvsidecar::usrbio
