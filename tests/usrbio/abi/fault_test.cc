// SPDX-License-Identifier: Apache-2.0
// Goal: each line of the fault list reaches the caller as the real daemon would let it. Method: one
// fault at a time, set by name; what was hit is asserted together with what wasn't.
#include <fcntl.h>

#include <map>

#include "tests/usrbio/abi/bed.h"

namespace kvsidecar::abi {
namespace {

class Faults : public Bed {
 protected:
  void SetUp() override {
    Bed::SetUp();
    file_ = file("a", pattern(8192));
    make(iov_, 16'384);
    make(ring_, 8, true, -1);
    registered_ = std::make_unique<Registered>(file_.get());
  }
  void TearDown() override {
    let_go();
    registered_.reset();
    Bed::TearDown();
  }
  void start(uint64_t count) {
    for (uint64_t user = 0; user < count; ++user) {
      ASSERT_GE(prepare_read(ring_, iov_, user * 100, file_.get(), 0, 100, user), 0);
    }
    ASSERT_EQ(library_.submit_ios(&ring_), 0);
  }
  // Results by userdata.
  std::map<uint64_t, int64_t> results(int count) {
    std::map<uint64_t, int64_t> found;
    for (const hf3fs_cqe& done : wait(ring_, count)) {
      found[reinterpret_cast<uint64_t>(done.userdata)] = done.result;
    }
    return found;
  }

  UniqueFd file_;
  Iov iov_;
  Ring ring_;
  std::unique_ptr<Registered> registered_;
};

using Results = std::map<uint64_t, int64_t>;

TEST_F(Faults, AnErrorHitsOneRequest) {
  for (const char* const name : {"EIO", "EREMOTEIO", "EINTR", "EPERM", "EMFILE", "EFBIG"}) {
    KVS_FAULTS("read.error " + std::string(name) + "@2");
    start(3);
    const Results found = results(3);
    EXPECT_EQ(found.at(0), 100);
    EXPECT_LT(found.at(1), 0) << name;
    EXPECT_EQ(found.at(2), 100);
  }
}

TEST_F(Faults, AShortCountHitsOneRequest) {
  KVS_FAULTS("read.short 40@1");
  start(2);
  EXPECT_EQ(results(2), (Results{{0, 40}, {1, 100}}));
}

TEST_F(Faults, ALostCompletionNeverComesAndKeepsItsSlot) {
  KVS_FAULTS("read.lost on@1");
  start(2);
  EXPECT_EQ(results(1), (Results{{1, 100}}));
  EXPECT_EQ(one_read(iov_, 8192, file_.get(), 0, 10), 10);
  EXPECT_TRUE(poll(ring_).empty());
  EXPECT_EQ(prepare_read(ring_, iov_, 0, file_.get(), 0, 10, 9), 1);  // slot 0 is still taken
}

TEST_F(Faults, ALateCompletionComesNoEarlierThanItsTime) {
  KVS_FAULTS("read.late_us 30000@1");
  const timespec earliest = from_now_ms(30);
  start(1);
  EXPECT_EQ(results(1), (Results{{0, 100}}));
  EXPECT_TRUE(has_passed(earliest));
  EXPECT_EQ(std::vector<uint8_t>(iov_.base, iov_.base + 100), pattern(100));
}

TEST_F(Faults, ADelayedRequestEndsNoEarlierThanItsTime) {
  KVS_FAULTS("read.delay_us 30000@1");
  const timespec earliest = from_now_ms(30);
  start(1);
  EXPECT_EQ(results(1), (Results{{0, 100}}));
  EXPECT_TRUE(has_passed(earliest));
}

TEST_F(Faults, AStalledRequestWaitsUntilItIsReleased) {
  KVS_FAULTS("read.stall on");
  start(2);
  const timespec until = from_now_ms(5);
  hf3fs_cqe done{};
  EXPECT_EQ(library_.wait_for_ios(&ring_, &done, 1, 1, &until), 0);
  let_go();
  EXPECT_EQ(results(2), (Results{{0, 100}, {1, 100}}));
}

// A registration answers before the memory is pinned, and never says that it couldn't be.
TEST_F(Faults, MemoryThatCouldNotBePinnedRefusesEachRequest) {
  KVS_FAULTS("iov.unpinned on@1");
  Iov unpinned, pinned;
  make(unpinned, 4096);
  make(pinned, 4096);
  EXPECT_EQ(one_read(unpinned, 0, file_.get(), 0, 10), -EACCES);
  EXPECT_EQ(one_read(unpinned, 0, file_.get(), 0, 10), -EACCES);
  EXPECT_EQ(one_read(pinned, 0, file_.get(), 0, 10), 10);
}

TEST_F(Faults, AFullTableIsTooManyFiles) {
  const int64_t iovs = subject().count("iovs"), rings = subject().count("rings");
  KVS_FAULTS("iovs.max " + std::to_string(iovs) + "; rings.max " + std::to_string(rings));
  Iov iov;
  Ring ring;
  EXPECT_EQ(library_.iovcreate(&iov, mount().c_str(), 4096, 0, -1), -EMFILE);
  EXPECT_EQ(library_.iorcreate(&ring, mount().c_str(), 4, true, 0, -1), -EMFILE);
  subject().set_faults("");
  make(iov, 4096);
  make(ring, 4);
}

TEST_F(Faults, AFullStoreAndAQuotaStopGrowingOnly) {
  ASSERT_EQ(one_write(iov_, 0, file_.get(), 0, 100), 100);
  for (const auto& [rule, error] : {std::pair<const char*, int>{"space.bytes 1", ENOSPC},
                                    std::pair<const char*, int>{"quota.bytes 1", EDQUOT}}) {
    KVS_FAULTS(rule);
    EXPECT_EQ(one_write(iov_, 0, file_.get(), 0, 100), 100) << rule;
    EXPECT_EQ(one_write(iov_, 0, file_.get(), 4 * chunk(), 100), -error) << rule;
    EXPECT_EQ(one_read(iov_, 0, file_.get(), 0, 100), 100) << rule;
  }
}

TEST_F(Faults, AFileUnlinkedUnderItsReaderTurnsShort) {
  ASSERT_EQ(::unlink(path("a").c_str()), 0);
  EXPECT_EQ(one_read(iov_, 0, file_.get(), 0, 100), 100);
  KVS_FAULTS("gc.at_unlink on");
  const UniqueFd second = file("b", pattern(100));
  const Registered registered(second.get());
  EXPECT_EQ(one_read(iov_, 0, second.get(), 0, 100), 100);
  ASSERT_EQ(::unlink(path("b").c_str()), 0);
  EXPECT_EQ(one_read(iov_, 0, second.get(), 0, 100), 0);
}

TEST_F(Faults, AnUnknownFaultIsRefused) {
  if (!traits_.settable_faults) GTEST_SKIP() << traits_.name << " takes no faults";
  EXPECT_FALSE(subject().set_faults("no.such on"));
  EXPECT_FALSE(subject().set_faults("read.error EWHAT"));
}

}  // namespace
}  // namespace kvsidecar::abi
