// SPDX-License-Identifier: Apache-2.0
// Goal: descriptors are registered and given back by the rules, and a number that was closed while
// registered can be used again. Method: the calls, and the descriptors that an exec'ed program
// would inherit: the test's own are not among them, the duplicates of upstream are.
#include <fcntl.h>
#include <sys/resource.h>

#include <cstdlib>

#include "tests/usrbio/abi/bed.h"

namespace kvsidecar::abi {
namespace {

class Descriptors : public Bed {
 protected:
  void SetUp() override {
    Bed::SetUp();
    file_ = file("a", pattern(1000));
    make(iov_, 4096);
    make(ring_, 4);
  }
  int prepare(int fd) { return prepare_read(ring_, iov_, 0, fd, 0, 10, 1); }

  UniqueFd file_;
  Iov iov_;
  Ring ring_;
};

TEST_F(Descriptors, RegisteringAnswersZeroOrLessAndCanBeTakenBack) {
  const size_t before = inherited_descriptors();
  const int answer = library_.reg_fd(file_.get(), 0);
  EXPECT_LE(answer, 0);
  if (traits_.duplicates) {
    EXPECT_EQ(inherited_descriptors(), before + 1);
    EXPECT_GE(::fcntl(-answer, F_GETFD), 0);
  }
  EXPECT_GE(prepare(file_.get()), 0);
  library_.dereg_fd(file_.get());
  EXPECT_EQ(inherited_descriptors(), before);
  EXPECT_EQ(prepare(file_.get()), -EBADF);
}

TEST_F(Descriptors, TheAnswerDoesAsWellAsTheDescriptor) {
  const Registered registered(file_.get());
  if (registered.answer() != 0) {
    EXPECT_GE(prepare(registered.answer()), 0);
    ASSERT_EQ(library_.submit_ios(&ring_), 0);
    EXPECT_EQ(wait(ring_, 1)[0].result, 10);
  }
}

TEST_F(Descriptors, WhatIsNotOfTheMountIsABadDescriptor) {
  const UniqueFd other(::open("/proc/self/status", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(library_.reg_fd(other.get(), 0), EBADF);
  EXPECT_EQ(library_.reg_fd(-1, 0), EBADF);
  EXPECT_EQ(library_.reg_fd(1 << 30, 0), EBADF);
}

TEST_F(Descriptors, OneIsRegisteredOnce) {
  const Registered first(file_.get());
  EXPECT_EQ(library_.reg_fd(file_.get(), 0), EINVAL);
  if (traits_.duplicates) {
    EXPECT_EQ(library_.reg_fd(-first.answer(), 0), EINVAL);
  }
}

TEST_F(Descriptors, OneFileIsRegisteredUnderManyNumbers) {
  const UniqueFd other = open("a", O_RDONLY);
  const Registered first(file_.get()), second(other.get());
  EXPECT_LE(second.answer(), 0);
  EXPECT_GE(prepare_read(ring_, iov_, 0, file_.get(), 0, 10, 1), 0);
  EXPECT_GE(prepare_read(ring_, iov_, 10, other.get(), 0, 10, 2), 0);
  ASSERT_EQ(library_.submit_ios(&ring_), 0);
  for (const hf3fs_cqe& done : wait(ring_, 2)) EXPECT_EQ(done.result, 10);
}

TEST_F(Descriptors, AFolderIsTaken) {
  const UniqueFd folder = open(".", O_RDONLY | O_DIRECTORY);
  const Registered registered(folder.get());
  EXPECT_LE(registered.answer(), 0);
}

TEST_F(Descriptors, TakingBackWhatIsNotRegisteredDoesNothing) {
  const size_t before = inherited_descriptors();
  library_.dereg_fd(file_.get());
  library_.dereg_fd(-1);
  library_.dereg_fd(1 << 30);
  const int answer = library_.reg_fd(file_.get(), 0);
  ASSERT_LE(answer, 0);
  library_.dereg_fd(answer == 0 ? -1 : answer);  // the negative answer is no descriptor
  EXPECT_GE(prepare(file_.get()), 0);
  library_.dereg_fd(file_.get());
  EXPECT_EQ(inherited_descriptors(), before);
}

TEST_F(Descriptors, TakingTheDuplicateBackFreesOnlyHalf) {
  if (!traits_.duplicates) GTEST_SKIP() << traits_.name << " makes no duplicates";
  const size_t before = inherited_descriptors();
  const int answer = library_.reg_fd(file_.get(), 0);
  ASSERT_LE(answer, 0);
  library_.dereg_fd(-answer);
  EXPECT_EQ(inherited_descriptors(), before + 1);
  EXPECT_EQ(library_.reg_fd(file_.get(), 0), EINVAL);
  library_.dereg_fd(file_.get());
  EXPECT_EQ(inherited_descriptors(), before);
}

// usrbio.md §11.4
TEST_F(Descriptors, ANumberThatWasClosedWhileRegisteredIsPoisonedUntilItIsTakenBack) {
  const int number = file_.get();
  ASSERT_LE(library_.reg_fd(number, 0), 0);
  file_.reset();
  UniqueFd opened = open("a", O_RDONLY);
  if (opened.get() != number) {
    ASSERT_EQ(::dup3(opened.get(), number, O_CLOEXEC), number);
    opened.reset(number);
  }
  const int answer = library_.reg_fd(number, 0);
  if (traits_.poisons) {
    EXPECT_EQ(answer, EINVAL);
    library_.dereg_fd(number);
    EXPECT_LE(library_.reg_fd(number, 0), 0);
  } else {
    EXPECT_LE(answer, 0);
  }
  EXPECT_GE(prepare(number), 0);
  library_.dereg_fd(number);
}

TEST_F(Descriptors, TakingBackAfterTheCloseDoesNothing) {
  const size_t before = inherited_descriptors();
  const int number = file_.get();
  ASSERT_LE(library_.reg_fd(number, 0), 0);
  file_.reset();
  library_.dereg_fd(number);
  EXPECT_EQ(inherited_descriptors(), before + (traits_.duplicates ? 1 : 0));
  file_ = open("a", O_RDONLY);
  if (file_.get() != number) {
    ASSERT_EQ(::dup3(file_.get(), number, O_CLOEXEC), number);
    file_.reset(number);
  }
  library_.dereg_fd(number);
  EXPECT_EQ(inherited_descriptors(), before);
}

TEST_F(Descriptors, ARegisteredFileStaysReadableAfterItsClose) {
  if (!traits_.duplicates) GTEST_SKIP() << traits_.name << " keeps no file open by itself";
  const int number = file_.get();
  ASSERT_LE(library_.reg_fd(number, 0), 0);
  file_.reset();
  EXPECT_GE(prepare(number), 0);
  ASSERT_EQ(library_.submit_ios(&ring_), 0);
  EXPECT_EQ(wait(ring_, 1)[0].result, 10);
  file_ = open("a", O_RDONLY);
  if (file_.get() != number) {
    ASSERT_EQ(::dup3(file_.get(), number, O_CLOEXEC), number);
    file_.reset(number);
  }
  library_.dereg_fd(number);
}

TEST_F(Descriptors, TheAccessModeIsThatOfTheRegistration) {
  const UniqueFd reader = open("a", O_RDONLY), writer = open("a", O_WRONLY);
  const Registered first(reader.get()), second(writer.get());
  Ring writes;
  make(writes, 4, false);
  EXPECT_EQ(prepare(writer.get()), -EACCES);
  EXPECT_EQ(library_.prep_io(&writes, &iov_, false, iov_.base, reader.get(), 0, 10, nullptr),
            -EACCES);
  EXPECT_GE(prepare(reader.get()), 0);
  EXPECT_GE(library_.prep_io(&writes, &iov_, false, iov_.base, writer.get(), 0, 10, nullptr), 0);
  ASSERT_EQ(library_.submit_ios(&ring_), 0);
  ASSERT_EQ(library_.submit_ios(&writes), 0);
  EXPECT_EQ(wait(ring_, 1)[0].result, 10);
  EXPECT_EQ(wait(writes, 1)[0].result, 10);
}

// usrbio.md §1: a slot for each possible number, which for the limits of containers is gigabytes.
TEST_F(Descriptors, LoadingAllocatesForEachPossibleNumber) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const int64_t slots = subject().count("slots_per_fd");
  if (slots < 0) GTEST_SKIP() << traits_.name << " doesn't tell what it allocated";
  EXPECT_EQ(slots, traits_.allocates_per_descriptor ? static_cast<int64_t>(limit.rlim_max) : 0);
}

}  // namespace
}  // namespace kvsidecar::abi
