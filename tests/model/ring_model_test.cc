// SPDX-License-Identifier: Apache-2.0
// Goal: no interleaving and no reordering that C++ allows loses a record or a wake-up of a ring,
// shows a record that isn't whole, or overwrites one that is still read; also when the writer dies
// at any step. Method: Relacy runs the code that production runs (ipc/ring_position.h) in two
// threads, with every value that a load may see: one record through every interleaving, several
// through all that take a thread away at most three times. And each order and look that the
// protocol rests on is taken away once, which must be found.
#include <gtest/gtest.h>

#include <ostream>
#include <streambuf>
#include <string>

#include "tests/model/ring_sides.h"

namespace kvsidecar::model {
namespace {

// Relacy prints while it owns the heap: text that grew there couldn't be freed afterwards.
class FixedText final : public std::streambuf {
 public:
  void clear() { setp(bytes_, bytes_ + sizeof bytes_); }
  std::string text() const { return {pbase(), pptr()}; }

 private:
  char bytes_[256 * 1024];
};

struct Search {
  rl::scheduler_type_e kind;
  unsigned switches_max;  // of threads that could have gone on
};
constexpr Search kAll{rl::sched_full, 0};
constexpr Search kSwitches{rl::sched_bound, 3};

template <typename Model>
void expect_result(const Search& search) {
  static FixedText said;
  said.clear();
  std::ostream out(&said), progress(nullptr);
  rl::test_params params;
  params.search_type = search.kind;
  params.context_bound = search.switches_max;
  params.execution_depth_limit = 500;
  params.output_stream = &out;
  params.progress_stream = &progress;
  EXPECT_TRUE(rl::simulate<Model>(params)) << said.text();
  std::printf("%llu interleavings\n", static_cast<unsigned long long>(params.stop_iteration));
}

template <typename P, template <typename> class Sides>
void expect_success(const Search& search) {
  expect_result<RingModel<P, Sides, rl::test_result_success>>(search);
}

template <typename P, template <typename> class Sides, rl::test_result_e kFault>
void expect_found() {
  expect_result<RingModel<P, Sides, kFault>>(kSwitches);
}

struct One : Plan {
  static constexpr uint64_t kRecords = 1;
};
TEST(RingModel, one_record_and_its_wake_up_survive_every_interleaving) {
  expect_success<One, Submission>(kAll);
  expect_success<One, Completion>(kAll);
}

TEST(RingModel, no_request_and_no_kick_is_lost_while_the_ring_wraps) {
  expect_success<Plan, Submission>(kSwitches);
}

TEST(RingModel, no_answer_and_no_ring_of_the_doorbell_is_lost_while_the_ring_wraps) {
  expect_success<Plan, Completion>(kSwitches);
}

struct Together : Plan {
  static constexpr uint64_t kRecordsAtOnce = 2;
};
TEST(RingModel, records_published_together_arrive_together) {
  expect_success<Together, Submission>(kSwitches);
  expect_success<Together, Completion>(kSwitches);
}

struct Mortal : Plan {
  static constexpr uint64_t kRecords = 2;
  static constexpr unsigned kSteps = 12;
};
TEST(RingModel, a_daemon_takes_what_a_client_published_before_it_died_at_any_step) {
  expect_success<Mortal, Submission>(kSwitches);
}

TEST(RingModel, a_client_takes_what_a_daemon_published_before_it_died_at_any_step) {
  expect_success<Mortal, Completion>(kSwitches);
}

struct RelaxedPublish : Plan {
  static constexpr Orders kPublished = Orders::kRelaxed;
};
TEST(RingModelFinds, a_record_published_without_order) {
  expect_found<RelaxedPublish, Submission, rl::test_result_data_race>();
  expect_found<RelaxedPublish, Completion, rl::test_result_data_race>();
}

struct RelaxedFree : Plan {
  static constexpr Orders kConsumed = Orders::kRelaxed;
};
TEST(RingModelFinds, a_cell_freed_without_order) {
  expect_found<RelaxedFree, Submission, rl::test_result_data_race>();
  expect_found<RelaxedFree, Completion, rl::test_result_data_race>();
}

struct NoSecondLook : Plan {
  static constexpr bool kLooksAgain = false;
};
TEST(RingModelFinds, a_sleeper_that_does_not_look_again) {
  expect_found<NoSecondLook, Submission, rl::test_result_deadlock>();
  expect_found<NoSecondLook, Completion, rl::test_result_deadlock>();
}

struct AcquireRelease : Plan {
  static constexpr Orders kPublished = Orders::kNoSeqCst;
  static constexpr Orders kFlag = Orders::kNoSeqCst;
};
TEST(RingModelFinds, a_flag_and_a_position_that_are_only_acquire_and_release) {
  expect_found<AcquireRelease, Submission, rl::test_result_deadlock>();
  expect_found<AcquireRelease, Completion, rl::test_result_deadlock>();
}

struct BellReadLate : Plan {
  static constexpr bool kReadsBellFirst = false;
};
TEST(RingModelFinds, a_doorbell_read_after_the_second_look) {
  expect_found<BellReadLate, Completion, rl::test_result_deadlock>();
}

}  // namespace
}  // namespace kvsidecar::model
