// SPDX-License-Identifier: Apache-2.0
// Goal: the daemon cuts a ring into jobs by its depth, completes a job as a whole and runs jobs in
// any order; what was prepared may run before its submit. Method: a job that stalls holds back what
// belongs to it; a remainder stays however often other rings are served.
#include <fcntl.h>

#include <set>
#include <thread>

#include "tests/usrbio/abi/bed.h"

namespace kvsidecar::abi {
namespace {

class Jobs : public Bed {
 protected:
  void SetUp() override {
    Bed::SetUp();
    file_ = file("a", pattern(8192));
    make(iov_, 8 * chunk());
    registered_ = std::make_unique<Registered>(file_.get());
  }
  void TearDown() override {
    let_go();
    registered_.reset();
    Bed::TearDown();
  }
  void prepare(const Ring& ring, uint64_t user) {
    ASSERT_GE(prepare_read(ring, iov_, user * 10, file_.get(), 0, 10, user), 0);
  }
  void prepare_many(const Ring& ring, uint64_t first, uint64_t count) {
    for (uint64_t user = first; user < first + count; ++user) prepare(ring, user);
  }
  // A request of another ring, served from beginning to end: the daemon has looked meanwhile.
  void let_it_look() { EXPECT_EQ(one_read(iov_, 4096, file_.get(), 0, 10), 10); }
  static std::set<const void*> users(const std::vector<hf3fs_cqe>& done) {
    std::set<const void*> found;
    for (const hf3fs_cqe& each : done) found.insert(each.userdata);
    return found;
  }

  UniqueFd file_;
  Iov iov_;
  std::unique_ptr<Registered> registered_;
};

TEST_F(Jobs, ARemainderBelowThePositiveDepthWaitsForMore) {
  Ring ring;
  make(ring, 16, true, 4);
  prepare_many(ring, 0, 6);
  ASSERT_EQ(library_.submit_ios(&ring), 0);
  EXPECT_EQ(users(wait(ring, 4)), (std::set<const void*>{tag(0), tag(1), tag(2), tag(3)}));
  for (int i = 0; i < 10; ++i) {
    let_it_look();
    ASSERT_EQ(library_.submit_ios(&ring), 0);
  }
  EXPECT_TRUE(poll(ring).empty());
  prepare_many(ring, 6, 2);
  ASSERT_EQ(library_.submit_ios(&ring), 0);
  EXPECT_EQ(users(wait(ring, 4)), (std::set<const void*>{tag(4), tag(5), tag(6), tag(7)}));
}

TEST_F(Jobs, ANegativeDepthTakesAllOfThem) {
  Ring ring;
  make(ring, 16, true, -4);
  prepare_many(ring, 0, 6);
  ASSERT_EQ(library_.submit_ios(&ring), 0);
  EXPECT_EQ(wait(ring, 6).size(), 6u);
}

// usrbio.md §2: the timer of the batch begins anew at each scan.
TEST_F(Jobs, ANegativeDepthWithATimeoutNeverTakesAPart) {
  Ring ring;
  make(ring, 16, true, -4, 1);
  prepare_many(ring, 0, 6);
  ASSERT_EQ(library_.submit_ios(&ring), 0);
  EXPECT_EQ(wait(ring, 4).size(), 4u);
  for (int i = 0; i < 50; ++i) {
    let_it_look();
    ASSERT_EQ(library_.submit_ios(&ring), 0);
  }
  EXPECT_TRUE(poll(ring).empty());
}

TEST_F(Jobs, AJobCompletesAsAWhole) {
  Ring ring;
  make(ring, 16, true, 4);
  KVS_FAULTS("early.again off; read.stall on@2");
  prepare_many(ring, 0, 4);
  ASSERT_EQ(library_.submit_ios(&ring), 0);
  let_it_look();
  EXPECT_TRUE(poll(ring).empty());  // though three of the four could have been read
  let_go();
  EXPECT_EQ(wait(ring, 4).size(), 4u);
}

TEST_F(Jobs, AYoungerJobMayEndFirst) {
  Ring ring;
  make(ring, 16, true, 2);
  KVS_FAULTS("early.again off; read.stall on@1");
  prepare_many(ring, 0, 4);
  ASSERT_EQ(library_.submit_ios(&ring), 0);
  EXPECT_EQ(users(wait(ring, 2)), (std::set<const void*>{tag(2), tag(3)}));
  EXPECT_TRUE(poll(ring).empty());
  let_go();
  EXPECT_EQ(users(wait(ring, 2)), (std::set<const void*>{tag(0), tag(1)}));
}

// usrbio.md §11.1: a submit of any ring of the priority starts what lies on all of them.
TEST_F(Jobs, AnotherRingsSubmitStartsWhatWasOnlyPrepared) {
  Ring ring;
  make(ring, 4);
  prepare_many(ring, 0, 3);
  let_it_look();
  EXPECT_EQ(wait(ring, 3).size(), 3u);
}

// On a ring of low priority, which nothing else here uses: a post of an earlier test may still be
// on its way.
TEST_F(Jobs, AtRestNothingRunsUnlessTheDaemonLooks) {
  KVS_FAULTS("early.again off");
  Ring ring;
  ASSERT_EQ(library_.iorcreate2(&ring, mount().c_str(), 4, true, 0, 1, -1), 0);
  prepare(ring, 1);
  const timespec until = from_now_ms(20);
  hf3fs_cqe done{};
  EXPECT_EQ(library_.wait_for_ios(&ring, &done, 1, 1, &until), 0);
  KVS_FAULTS("early.idle on");
  EXPECT_EQ(wait(ring, 1)[0].result, 10);
}

TEST_F(Jobs, OverlappingTargetsFailEveryReadOfTheJob) {
  Ring ring;
  make(ring, 16, true, 3);
  ASSERT_GE(prepare_read(ring, iov_, 0, file_.get(), 0, 100, 0), 0);
  ASSERT_GE(prepare_read(ring, iov_, 99, file_.get(), 0, 100, 1), 0);
  ASSERT_GE(prepare_read(ring, iov_, 1000, file_.get(), 0, 100, 2), 0);
  ASSERT_EQ(library_.submit_ios(&ring), 0);
  for (const hf3fs_cqe& done : wait(ring, 3)) EXPECT_EQ(done.result, -EIO);
}

// usrbio.md §11.3: a count is no proof. What one job adds up wrongly, jobs of one request don't.
TEST_F(Jobs, AHoleOfTheRequestBeforeMayBeAddedToTheCount) {
  const UniqueFd sparse = sparse_file("b", 4 * chunk(), {0, 3});
  const Registered also(sparse.get());
  const int64_t bytes = static_cast<int64_t>(chunk());
  for (const int depth : {2, -1}) {
    Ring ring;
    make(ring, 4, true, depth);
    ASSERT_GE(prepare_read(ring, iov_, 0, sparse.get(), chunk(), chunk(), 0), 0);
    ASSERT_GE(prepare_read(ring, iov_, chunk(), sparse.get(), 2 * chunk(), 2 * chunk(), 1), 0);
    ASSERT_EQ(library_.submit_ios(&ring), 0);
    for (const hf3fs_cqe& done : wait(ring, 2)) {
      if (done.userdata == tag(0)) {
        EXPECT_EQ(done.result, 0);
      } else {
        EXPECT_EQ(done.result, depth > 0 && traits_.folds_holes_wrongly ? 3 * bytes : 2 * bytes);
      }
    }
  }
}

// The case that looks complete: half of the second request was never stored.
TEST_F(Jobs, AWrongCountMaySayExactlyAll) {
  if (!traits_.folds_holes_wrongly) GTEST_SKIP() << traits_.name << " counts holes rightly";
  const UniqueFd sparse = sparse_file("b", 5 * chunk(), {0, 3});
  const Registered also(sparse.get());
  Ring ring;
  make(ring, 4, true, 2);
  ASSERT_GE(prepare_read(ring, iov_, 0, sparse.get(), chunk(), chunk(), 0), 0);
  ASSERT_GE(prepare_read(ring, iov_, chunk(), sparse.get(), 2 * chunk(), 3 * chunk(), 1), 0);
  ASSERT_EQ(library_.submit_ios(&ring), 0);
  for (const hf3fs_cqe& done : wait(ring, 2)) {
    if (done.userdata == tag(1)) {
      EXPECT_EQ(done.result, static_cast<int64_t>(3 * chunk()));
    }
  }
}

}  // namespace
}  // namespace kvsidecar::abi
