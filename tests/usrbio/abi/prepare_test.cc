// SPDX-License-Identifier: Apache-2.0
// Goal: what may be put on a ring, and how much. Method: each bad argument alone; a ring filled
// while the daemon stalls.
#include <fcntl.h>

#include <set>

#include "tests/usrbio/abi/bed.h"

namespace kvsidecar::abi {
namespace {

constexpr uint64_t kBytes = 8192;

class Prepare : public Bed {
 protected:
  void SetUp() override {
    Bed::SetUp();
    file_ = file("a", pattern(kBytes));
    make(iov_, kBytes);
    make(ring_, 4);
    registered_ = std::make_unique<Registered>(file_.get());
  }
  void TearDown() override {
    let_go();
    registered_.reset();
    Bed::TearDown();
  }
  int prepare(uint8_t* address, uint64_t bytes, uint64_t user = 0) {
    return library_.prep_io(&ring_, &iov_, true, address, file_.get(), 0, bytes, tag(user));
  }

  UniqueFd file_;
  Iov iov_;
  Ring ring_;
  std::unique_ptr<Registered> registered_;
};

TEST_F(Prepare, NothingIsInvalid) {
  EXPECT_EQ(library_.prep_io(nullptr, &iov_, true, iov_.base, file_.get(), 0, 10, nullptr),
            -EINVAL);
  EXPECT_EQ(library_.prep_io(&ring_, nullptr, true, iov_.base, file_.get(), 0, 10, nullptr),
            -EINVAL);
  EXPECT_EQ(prepare(nullptr, 10), -EINVAL);
}

TEST_F(Prepare, ARingIsForOneDirection) {
  EXPECT_EQ(library_.prep_io(&ring_, &iov_, false, iov_.base, file_.get(), 0, 10, nullptr),
            -EINVAL);
  Ring writes;
  make(writes, 4, false);
  EXPECT_EQ(library_.prep_io(&writes, &iov_, true, iov_.base, file_.get(), 0, 10, nullptr),
            -EINVAL);
}

TEST_F(Prepare, NoBytesAreInvalid) { EXPECT_EQ(prepare(iov_.base, 0), -EINVAL); }

TEST_F(Prepare, TheRangeLiesInTheMemory) {
  EXPECT_EQ(prepare(iov_.base - 1, 10), -EINVAL);
  EXPECT_EQ(prepare(iov_.base + kBytes - 9, 10), -EINVAL);
  EXPECT_EQ(prepare(iov_.base + kBytes, 1), -EINVAL);
  EXPECT_EQ(prepare(iov_.base, kBytes + 1), -EINVAL);
  EXPECT_GE(prepare(iov_.base + kBytes - 10, 10), 0);
  ASSERT_EQ(library_.submit_ios(&ring_), 0);
  EXPECT_EQ(wait(ring_, 1)[0].result, 10);
}

// usrbio.md §11.15: upstream's sum overflows, so callers bound the length themselves.
TEST_F(Prepare, ALengthThatOverflowsMayBeTaken) {
  const int answer = prepare(iov_.base + 1, UINT64_MAX);
  EXPECT_EQ(answer >= 0, traits_.takes_wrapping_lengths) << answer;
  if (answer < 0) return;
  ASSERT_EQ(library_.submit_ios(&ring_), 0);
  EXPECT_EQ(wait(ring_, 1)[0].result, -EINVAL);
}

TEST_F(Prepare, TheFileIsRegistered) {
  const UniqueFd other = open("a", O_RDONLY);
  EXPECT_EQ(library_.prep_io(&ring_, &iov_, true, iov_.base, other.get(), 0, 10, nullptr), -EBADF);
  EXPECT_EQ(library_.prep_io(&ring_, &iov_, true, iov_.base, 1 << 30, 0, 10, nullptr), -EINVAL);
}

TEST_F(Prepare, TheLowestFreeSlotComesFirst) {
  for (int slot = 0; slot < 4; ++slot) EXPECT_EQ(prepare(iov_.base + slot * 10, 10), slot);
  ASSERT_EQ(library_.submit_ios(&ring_), 0);
  std::set<int> slots;
  for (const hf3fs_cqe& done : wait(ring_, 4)) slots.insert(done.index);
  EXPECT_EQ(slots, (std::set<int>{0, 1, 2, 3}));
  EXPECT_EQ(prepare(iov_.base, 10), 0);
  ASSERT_EQ(library_.submit_ios(&ring_), 0);
  EXPECT_EQ(wait(ring_, 1)[0].index, 0);
}

TEST_F(Prepare, AFullRingSaysTryAgainAndGoesOnAfterwards) {
  KVS_FAULTS("read.stall on");
  for (uint64_t i = 0; i < 4; ++i) ASSERT_GE(prepare(iov_.base + i * 10, 10, i), 0);
  EXPECT_EQ(prepare(iov_.base + 100, 10), -EAGAIN);
  ASSERT_EQ(library_.submit_ios(&ring_), 0);
  EXPECT_EQ(prepare(iov_.base + 100, 10), -EAGAIN);
  let_go();
  EXPECT_EQ(wait(ring_, 4).size(), 4u);
  EXPECT_GE(prepare(iov_.base + 100, 10), 0);
  ASSERT_EQ(library_.submit_ios(&ring_), 0);
  EXPECT_EQ(wait(ring_, 1)[0].result, 10);
}

// usrbio.md §11.2: slots are free again, but the submission tail moves in order only.
TEST_F(Prepare, OneSlowRequestKeepsTheRingFullThoughTheOthersAreReaped) {
  Ring ring;
  make(ring, 4, true, -1);
  KVS_FAULTS("read.stall on@1");
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_GE(prepare_read(ring, iov_, i * 10, file_.get(), 0, 10, i), 0);
  }
  ASSERT_EQ(library_.submit_ios(&ring), 0);
  std::set<const void*> ended;
  for (const hf3fs_cqe& done : wait(ring, 3)) ended.insert(done.userdata);
  EXPECT_EQ(ended, (std::set<const void*>{tag(1), tag(2), tag(3)}));
  EXPECT_EQ(prepare_read(ring, iov_, 50, file_.get(), 0, 10, 5), -EAGAIN);
  let_go();
  EXPECT_EQ(wait(ring, 1)[0].userdata, tag(0));
  EXPECT_GE(prepare_read(ring, iov_, 50, file_.get(), 0, 10, 5), 0);
  ASSERT_EQ(library_.submit_ios(&ring), 0);
  EXPECT_EQ(wait(ring, 1)[0].userdata, tag(5));
}

}  // namespace
}  // namespace kvsidecar::abi
