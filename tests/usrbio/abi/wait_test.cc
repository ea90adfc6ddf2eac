// SPDX-License-Identifier: Apache-2.0
// Goal: completions are handed out once, matched by userdata, and deadlines are CLOCK_REALTIME.
// Method: requests that stall until the test releases them; deadlines long past or far ahead. The
// only time asserted is that nothing returns before its deadline.
#include <set>
#include <thread>

#include "tests/usrbio/abi/bed.h"

namespace kvsidecar::abi {
namespace {

class Wait : public Bed {
 protected:
  void SetUp() override {
    Bed::SetUp();
    file_ = file("a", pattern(8192));
    make(iov_, 8192);
    make(ring_, 8, true, -1);
    registered_ = std::make_unique<Registered>(file_.get());
  }
  void TearDown() override {
    let_go();
    registered_.reset();
    Bed::TearDown();
  }
  void start(uint64_t count, uint64_t first = 0) {
    for (uint64_t i = 0; i < count; ++i) {
      ASSERT_GE(prepare_read(ring_, iov_, (first + i) * 10, file_.get(), i, 10, first + i), 0);
    }
    ASSERT_EQ(library_.submit_ios(&ring_), 0);
  }
  int wait_for(int into_count, int min_results, const timespec* until) {
    return library_.wait_for_ios(&ring_, done_, into_count, min_results, until);
  }

  UniqueFd file_;
  Iov iov_;
  Ring ring_;
  std::unique_ptr<Registered> registered_;
  hf3fs_cqe done_[8] = {};
};

TEST_F(Wait, NoRoomForResultsIsInvalid) {
  EXPECT_EQ(wait_for(0, 0, nullptr), -EINVAL);
  EXPECT_EQ(wait_for(-1, 0, nullptr), -EINVAL);
  EXPECT_EQ(library_.wait_for_ios(&ring_, nullptr, 1, 0, nullptr), -EINVAL);
  EXPECT_EQ(library_.wait_for_ios(nullptr, done_, 1, 0, nullptr), -EINVAL);
  EXPECT_EQ(library_.submit_ios(nullptr), -EINVAL);
}

TEST_F(Wait, EveryRequestComesBackOnceWithItsUserdata) {
  start(8, 100);
  std::set<const void*> users, wanted;
  for (const hf3fs_cqe& done : wait(ring_, 8)) {
    EXPECT_EQ(done.result, 10);
    users.insert(done.userdata);
  }
  for (uint64_t i = 100; i < 108; ++i) wanted.insert(tag(i));
  EXPECT_EQ(users, wanted);
  EXPECT_TRUE(poll(ring_).empty());
}

TEST_F(Wait, NoMoreThanThereIsRoomFor) {
  start(8);
  std::set<const void*> users;
  for (int i = 0; i < 8; ++i) {
    ASSERT_EQ(wait_for(1, 1, nullptr), 1);
    users.insert(done_[0].userdata);
  }
  EXPECT_EQ(users.size(), 8u);
}

TEST_F(Wait, WantingMoreThanThereIsRoomForIsClamped) {
  start(3);
  EXPECT_EQ(wait_for(3, 1000, nullptr), 3);
}

TEST_F(Wait, WantingNothingDoesNotWait) {
  EXPECT_EQ(wait_for(8, 0, nullptr), 0);
  KVS_FAULTS("read.stall on");
  start(1);
  EXPECT_EQ(wait_for(8, 0, nullptr), 0);
  let_go();
  EXPECT_EQ(wait(ring_, 1)[0].result, 10);
}

TEST_F(Wait, ADeadlineThatPassesIsNoError) {
  KVS_FAULTS("read.stall on");
  start(2);
  const timespec until = from_now_ms(20);
  EXPECT_EQ(wait_for(8, 1, &until), 0);
  EXPECT_TRUE(has_passed(until));
  let_go();
  EXPECT_EQ(wait(ring_, 2).size(), 2u);
}

TEST_F(Wait, ADeadlineReturnsWhatThereIs) {
  KVS_FAULTS("read.stall on@3");
  start(3);
  EXPECT_EQ(wait_for(2, 2, nullptr), 2);
  const timespec until = from_now_ms(5);
  EXPECT_EQ(wait_for(8, 1, &until), 0);
  let_go();
  EXPECT_EQ(wait(ring_, 1)[0].userdata, tag(2));
}

// NIXL waits by CLOCK_MONOTONIC: always over at once.
TEST_F(Wait, TheClockIsTheWallClock) {
  KVS_FAULTS("read.stall on");
  start(1);
  timespec monotonic{};
  ::clock_gettime(CLOCK_MONOTONIC, &monotonic);
  monotonic.tv_sec += 1000;
  EXPECT_EQ(wait_for(8, 1, &monotonic), 0);
  let_go();
  EXPECT_EQ(wait(ring_, 1)[0].result, 10);
}

TEST_F(Wait, ADeadlineLongPastStillTakesWhatIsThere) {
  start(1);
  const timespec past{};
  int got = 0;
  while (got == 0) {
    got = wait_for(8, 1, &past);
    std::this_thread::yield();
  }
  EXPECT_EQ(got, 1);
}

TEST_F(Wait, OneThreadPreparesWhileAnotherWaits) {
  constexpr uint64_t kRequests = 2000;
  std::vector<int> seen(kRequests);
  std::thread waiter([&] {
    for (uint64_t taken = 0; taken < kRequests;) {
      hf3fs_cqe done[4];
      const int count = library_.wait_for_ios(&ring_, done, 4, 1, nullptr);
      for (int i = 0; i < count; ++i) ++seen[reinterpret_cast<uint64_t>(done[i].userdata)];
      taken += static_cast<uint64_t>(std::max(count, 0));
    }
  });
  for (uint64_t i = 0; i < kRequests;) {
    const int slot = prepare_read(ring_, iov_, i % 8 * 10, file_.get(), 0, 10, i);
    if (slot == -EAGAIN) {
      std::this_thread::yield();
      continue;
    }
    EXPECT_GE(slot, 0);
    EXPECT_EQ(library_.submit_ios(&ring_), 0);
    ++i;
  }
  waiter.join();
  EXPECT_EQ(seen, std::vector<int>(kRequests, 1));
}

}  // namespace
}  // namespace kvsidecar::abi
