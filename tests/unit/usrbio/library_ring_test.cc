// SPDX-License-Identifier: Apache-2.0
// Goal: whatever the library does, its client keeps count, refuses what would crash it and throws
// nothing. Method: functions of the test's own in the place of the library's.
#include "sidecar/store/usrbio/library_ring.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <stdexcept>

#include "tests/unit/usrbio/plain_mount.h"

namespace kvsidecar::usrbio {
namespace {

// What the functions below do; one test at a time.
struct Script {
  std::vector<std::string> calls;
  int prepared = 0, reg_answers_taken = 0;
  int prep_answer = 0;            // instead of taking it, if below 0
  std::deque<int> reg_answers;    // 0 when empty
  std::deque<const void*> users;  // taken, not yet ended
  std::deque<abi::Cqe> ready;
  bool throws = false;
  int wait_answer = 0;  // instead, if not 0
  timespec deadline{1, 1};
  int created_timeout = -1;
  uint64_t created_flags = 99;
};
Script* script = nullptr;

void call(const std::string& name) {
  script->calls.push_back(name);
  if (script->throws) throw std::runtime_error(name);
}

LibraryFunctions scripted() {
  LibraryFunctions f;
  f.path = "/scripted";
  f.is_hf3fs = [](int) { return true; };
  f.iov_wrap = [](abi::Iov* iov, void* base, const uint8_t* id, const char*, size_t bytes,
                  size_t block, int) {
    call("iovwrap");
    *iov = {};
    iov->base = static_cast<uint8_t*>(base);
    std::copy_n(id, 16, iov->id);
    iov->bytes = bytes;
    return block == 0 ? 0 : -EINVAL;
  };
  f.ior_create = [](abi::Ior* ior, const char*, int entries, bool, int, int timeout, int,
                    uint64_t flags) {
    call("iorcreate");
    ior->handle = ior;
    script->created_timeout = timeout;
    script->created_flags = flags;
    return entries == 13 ? -ENOENT : 0;
  };
  f.ior_destroy = [](abi::Ior*) { call("iordestroy"); };
  f.reg_fd = [](int fd, uint64_t) {
    call("reg " + std::to_string(fd));
    if (script->reg_answers.empty()) return 0;
    const int answer = script->reg_answers.front();
    script->reg_answers.pop_front();
    return answer;
  };
  f.dereg_fd = [](int fd) { call("dereg " + std::to_string(fd)); };
  f.prep_io = [](const abi::Ior*, const abi::Iov*, bool, void*, int, size_t, uint64_t,
                 const void* user) {
    call("prep");
    if (script->prep_answer < 0) return script->prep_answer;
    script->users.push_back(user);
    return script->prepared++;
  };
  f.submit_ios = [](const abi::Ior*) {
    call("submit");
    return 0;
  };
  f.wait_for_ios = [](const abi::Ior*, abi::Cqe* into, int count, int, const timespec* deadline) {
    call("wait");
    script->deadline = *deadline;
    if (script->wait_answer != 0) return script->wait_answer;
    int got = 0;
    for (; got < count && !script->ready.empty(); ++got) {
      into[got] = script->ready.front();
      script->ready.pop_front();
    }
    return got;
  };
  return f;
}

class LibraryRingTest : public PlainMountTest {
 protected:
  void SetUp() override {
    PlainMountTest::SetUp();
    script = &script_;
    library_ = std::make_shared<LoadedLibrary>(LoadedLibrary{scripted(), {}});
    mount_ = open_mount();
    const UniqueFd shared(::open(shared_.c_str(), O_RDWR | O_CLOEXEC));
    mapped_ = MappedMemory::map(shared.get(), 0, 8192, Access::kReadWrite).take();
    file_fd_.reset(::open((point_ + "/f").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    memory_ = LibraryMemory::make(*library_, mount_, shared_, {mapped_.data(), 8192}).take();
    file_ = LibraryFile::make(library_, *mount_, file_fd_.get()).take();
    ring_ = LibraryRing::make(library_, *mount_, {.entries = 4}).take();
    script_.calls.clear();
  }
  void TearDown() override {
    script_.throws = false;
    ring_.reset();
    file_.reset();
    memory_.reset();
    mount_.reset();
    PlainMountTest::TearDown();
  }
  int prepare(uint64_t user, uint64_t bytes = 100) {
    return ring_->prepare(*memory_, mapped_.data(), bytes, *file_, 0, user);
  }
  void end_oldest(int64_t result) {
    script_.ready.push_back({0, 0, result, script_.users.front()});
    script_.users.pop_front();
  }
  std::vector<Completion> poll() {
    std::array<Completion, 100> found;
    const size_t count = ring_->poll(found);
    return {found.begin(), found.begin() + static_cast<ptrdiff_t>(count)};
  }
  size_t calls(const std::string& name) const {
    return static_cast<size_t>(std::count(script_.calls.begin(), script_.calls.end(), name));
  }

  Script script_;
  std::shared_ptr<LoadedLibrary> library_;
  std::shared_ptr<Mount> mount_;
  MappedMemory mapped_;
  UniqueFd file_fd_;
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<File> file_;
  std::unique_ptr<Ring> ring_;
};

TEST_F(LibraryRingTest, ARingIsMadeWithoutTimeoutAndFlags) {
  EXPECT_EQ(script_.created_timeout, 0);
  EXPECT_EQ(script_.created_flags, 0u);
}

TEST_F(LibraryRingTest, CompletionsAreTheCallersOwnInAnyOrder) {
  ASSERT_EQ(prepare(7), 0);
  ASSERT_EQ(prepare(8), 0);
  std::swap(script_.users[0], script_.users[1]);
  end_oldest(50);
  end_oldest(-EIO);
  EXPECT_TRUE(ring_->has_completion());
  const auto ended = poll();
  ASSERT_EQ(ended.size(), 2u);
  EXPECT_EQ(ended[0].user, 8u);
  EXPECT_EQ(ended[0].result, 50);
  EXPECT_EQ(ended[1].user, 7u);
  EXPECT_EQ(ended[1].result, -EIO);
  EXPECT_FALSE(ring_->has_completion());
}

TEST_F(LibraryRingTest, ItIsAskedWithADeadlineThatHasPassed) {
  poll();
  EXPECT_EQ(script_.deadline.tv_sec, 0);
}

// usrbio.md §11.3
TEST_F(LibraryRingTest, ACountAboveWhatWasAskedIsAnError) {
  ASSERT_EQ(prepare(7, 100), 0);
  end_oldest(101);
  EXPECT_EQ(poll()[0].result, -EIO);
}

// usrbio.md §11.15 and §1: the crashes and overflows of the library's own checks.
TEST_F(LibraryRingTest, WhatTheLibraryWouldMisjudgeNeverReachesIt) {
  std::byte* const base = mapped_.data();
  EXPECT_EQ(ring_->prepare(*memory_, base, 0, *file_, 0, 1), -EINVAL);
  EXPECT_EQ(ring_->prepare(*memory_, base - 1, 1, *file_, 0, 1), -EINVAL);
  EXPECT_EQ(ring_->prepare(*memory_, base + 1, UINT64_MAX, *file_, 0, 1), -EINVAL);
  EXPECT_EQ(ring_->prepare(*memory_, base + 1, 8192, *file_, 0, 1), -EINVAL);
  EXPECT_EQ(ring_->prepare(*memory_, base, 1, *file_, uint64_t{INT64_MAX} + 1, 1), -EINVAL);
  EXPECT_EQ(ring_->prepare(*memory_, base, 2, *file_, INT64_MAX - 1, 1), -EINVAL);
  EXPECT_EQ(ring_->prepare(*memory_, nullptr, 1, *file_, 0, 1), -EINVAL);
  EXPECT_EQ(calls("prep"), 0u);
  for (const RingOptions& options : {RingOptions{.entries = 0}, RingOptions{.entries = UINT32_MAX},
                                     RingOptions{.entries = 4, .io_depth = 1}})
    EXPECT_EQ(LibraryRing::make(library_, *mount_, options).status().code(), Code::kInvalid);
  EXPECT_EQ(calls("iorcreate"), 0u);
}

TEST_F(LibraryRingTest, TheFilesAccessDecides) {
  const UniqueFd reader(::open((point_ + "/f").c_str(), O_RDONLY | O_CLOEXEC));
  auto file = LibraryFile::make(library_, *mount_, reader.get()).take();
  auto writes = LibraryRing::make(library_, *mount_, {.entries = 4, .for_read = false}).take();
  EXPECT_EQ(writes->prepare(*memory_, mapped_.data(), 1, *file, 0, 1), -EACCES);
  EXPECT_EQ(ring_->prepare(*memory_, mapped_.data(), 1, *file, 0, 1), 0);
}

TEST_F(LibraryRingTest, OurOwnCountRefusesBeforeTheLibraryComplains) {
  for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(prepare(i), 0);
  EXPECT_EQ(prepare(4), -EAGAIN);
  EXPECT_EQ(calls("prep"), 4u);
}

// usrbio.md §11.2: a line on stderr at each try.
TEST_F(LibraryRingTest, AFullRingIsTriedAgainOnlyAfterACompletion) {
  ASSERT_EQ(prepare(1), 0);
  script_.prep_answer = -EAGAIN;
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(prepare(2), -EAGAIN);
    EXPECT_TRUE(poll().empty());
  }
  EXPECT_EQ(calls("prep"), 2u);
  script_.prep_answer = 0;
  end_oldest(100);
  EXPECT_EQ(poll().size(), 1u);
  EXPECT_EQ(prepare(2), 0);
}

TEST_F(LibraryRingTest, AFullRingWhoseCompletionWasLostIsTriedAgainInTheEnd) {
  script_.prep_answer = -EAGAIN;
  EXPECT_EQ(prepare(2), -EAGAIN);
  script_.prep_answer = 0;
  int polls = 0;
  while (prepare(2) == -EAGAIN) {
    ASSERT_LT(++polls, 1000);
    poll();
  }
  EXPECT_GT(polls, 10);
}

TEST_F(LibraryRingTest, ARefusalTakesNoSlot) {
  script_.prep_answer = -EBADF;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(prepare(1), -EBADF);
  script_.prep_answer = 0;
  for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(prepare(i), 0);
}

TEST_F(LibraryRingTest, AStaleOrForeignCompletionEndsTheRing) {
  ASSERT_EQ(prepare(1), 0);
  script_.ready.push_back({0, 0, 100, script_.users.front()});
  end_oldest(100);
  EXPECT_EQ(poll().size(), 1u);
  EXPECT_EQ(ring_->fault().code(), Code::kIoError);
  EXPECT_EQ(prepare(2), -EPROTO);
  EXPECT_TRUE(poll().empty());
  EXPECT_FALSE(ring_->has_completion());
}

TEST_F(LibraryRingTest, AnAnswerThatCannotBeEndsTheRing) {
  script_.wait_answer = 1000;
  EXPECT_TRUE(poll().empty());
  EXPECT_FALSE(ring_->fault().ok());
}

TEST_F(LibraryRingTest, AnExceptionFromAnyCallEndsTheRingAndNothingElse) {
  const std::function<void(Ring&)> uses[] = {
      [this](Ring& ring) {
        EXPECT_EQ(ring.prepare(*memory_, mapped_.data(), 1, *file_, 0, 1), -EPROTO);
      },
      [](Ring& ring) { ring.submit(); }, [](Ring& ring) { EXPECT_FALSE(ring.has_completion()); }};
  for (const auto& use : uses) {
    auto ring = LibraryRing::make(library_, *mount_, {.entries = 4}).take();
    script_.throws = true;
    use(*ring);
    EXPECT_EQ(ring->fault().code(), Code::kIoError);
    ring.reset();
    script_.throws = false;
  }
}

TEST_F(LibraryRingTest, AnExceptionWhereSomethingIsMadeIsAStatus) {
  script_.throws = true;
  EXPECT_EQ(LibraryRing::make(library_, *mount_, {.entries = 4}).status().code(),
            Code::kUnavailable);
  EXPECT_FALSE(LibraryMemory::make(*library_, mount_, shared_, {mapped_.data(), 8192}).ok());
  const UniqueFd other(::open((point_ + "/f").c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(LibraryFile::make(library_, *mount_, other.get()).status().code(), Code::kUnavailable);
  script_.throws = false;
  EXPECT_EQ(keys().size(), 1u);  // the fixture's own memory
}

TEST_F(LibraryRingTest, ARefusedRingSaysWhy) {
  const auto ring = LibraryRing::make(library_, *mount_, {.entries = 13});
  EXPECT_EQ(ring.status().code(), Code::kUnavailable);
  EXPECT_NE(ring.status().text().find("/scripted"), std::string::npos);
}

// usrbio.md §11.4
TEST_F(LibraryRingTest, APoisonedNumberIsCured) {
  const UniqueFd fd(::open((point_ + "/f").c_str(), O_RDONLY | O_CLOEXEC));
  script_.reg_answers = {EINVAL, 0};
  const auto file = LibraryFile::make(library_, *mount_, fd.get());
  ASSERT_TRUE(file.ok()) << file.status().text();
  const std::string number = std::to_string(fd.get());
  EXPECT_EQ(script_.calls,
            (std::vector<std::string>{"reg " + number, "dereg " + number, "reg " + number}));
}

TEST_F(LibraryRingTest, ANumberThatIsInUseIsNotCuredAway) {
  EXPECT_EQ(LibraryFile::make(library_, *mount_, file_fd_.get()).status().code(), Code::kInvalid);
  EXPECT_TRUE(script_.calls.empty());
}

TEST_F(LibraryRingTest, TheLibrarysDuplicateIsNotInherited) {
  const UniqueFd fd(::open((point_ + "/f").c_str(), O_RDONLY | O_CLOEXEC));
  const UniqueFd duplicate(::dup(fd.get()));
  script_.reg_answers = {-duplicate.get()};
  ASSERT_TRUE(LibraryFile::make(library_, *mount_, fd.get()).ok());
  EXPECT_EQ(::fcntl(duplicate.get(), F_GETFD), FD_CLOEXEC);
}

TEST_F(LibraryRingTest, APositiveAnswerOfRegisteringIsAnError) {
  const UniqueFd fd(::open((point_ + "/f").c_str(), O_RDONLY | O_CLOEXEC));
  script_.reg_answers = {EBADF};
  EXPECT_FALSE(LibraryFile::make(library_, *mount_, fd.get()).ok());
  EXPECT_TRUE(LibraryFile::make(library_, *mount_, fd.get()).ok());
}

}  // namespace
}  // namespace kvsidecar::usrbio
