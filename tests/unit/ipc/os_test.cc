// SPDX-License-Identifier: Apache-2.0
// Goal: descriptors close once, mappings show the same bytes, and wake-ups arrive.
// Method: real descriptors and mappings; a waiter is known to sleep by its state in /proc.
#include "ipc/os.h"

#include <fcntl.h>
#include <sys/syscall.h>

#include <fstream>
#include <future>
#include <thread>

#include "tests/unit/ipc/ipc_fixture.h"

namespace kvsidecar {
namespace {

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

TEST(UniqueFd, ClosesWhatItOwnsAndOnlyThat) {
  const int raw = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  {
    UniqueFd first(raw);
    UniqueFd second(std::move(first));
    EXPECT_FALSE(first);  // NOLINT: the moved-from state is the point
    EXPECT_EQ(second.get(), raw);
    UniqueFd third;
    third = std::move(second);
    EXPECT_TRUE(is_open(raw));
  }
  EXPECT_FALSE(is_open(raw));
  const int kept = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(UniqueFd(kept).release(), kept);
  EXPECT_TRUE(is_open(kept));
  ::close(kept);
}

TEST(MappedMemory, TwoMappingsShareTheirBytes) {
  auto fd = make_sealed_memfd("test", 3 * 4096);
  ASSERT_TRUE(fd.ok());
  auto all = MappedMemory::map(fd->get(), 0, 3 * 4096, Access::kReadWrite);
  auto tail = MappedMemory::map(fd->get(), 4096 + 8, 100, Access::kReadOnly);
  ASSERT_TRUE(all.ok() && tail.ok());
  EXPECT_EQ(all->size(), 3u * 4096);
  EXPECT_EQ(tail->size(), 100u);
  all->data()[4096 + 8] = std::byte{9};
  EXPECT_EQ(tail->data()[0], std::byte{9});
  MappedMemory moved = all.take();
  EXPECT_EQ(moved.data()[4096 + 8], std::byte{9});
  EXPECT_EQ(MappedMemory().data(), nullptr);
  EXPECT_EQ(MappedMemory().size(), 0u);
}

TEST(MappedMemory, ImpossibleMappingsAreRefusedWithASentence) {
  auto fd = make_sealed_memfd("test", 4096);
  expect_refused(MappedMemory::map(fd->get(), 0, 0, Access::kReadOnly).status(), Code::kInvalid,
                 "bytes is 0");
  expect_refused(MappedMemory::map(fd->get(), UINT64_MAX, 10, Access::kReadOnly).status(),
                 Code::kInvalid, "offset");
  expect_refused(MappedMemory::map(-1, 0, 10, Access::kReadOnly).status(), Code::kInternal,
                 "mmap of 10 bytes");
  const UniqueFd read_only(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  EXPECT_FALSE(MappedMemory::map(read_only.get(), 0, 4096, Access::kReadWrite).ok());
}

TEST(Eventfd, IsReadableUntilItIsDrained) {
  auto fd = make_eventfd();
  ASSERT_TRUE(fd.ok());
  pollfd state{fd->get(), POLLIN, 0};
  EXPECT_EQ(::poll(&state, 1, 0), 0);
  eventfd_signal(fd->get());
  eventfd_signal(fd->get());
  EXPECT_EQ(::poll(&state, 1, 0), 1);
  eventfd_drain(fd->get());
  EXPECT_EQ(::poll(&state, 1, 0), 0);
  eventfd_drain(fd->get());  // nothing there: returns at once
}

TEST(Bell, IsReadableUntilItIsReadAndHoldsNobodyWhoRingsIt) {
  auto fd = make_bell();
  ASSERT_TRUE(fd.ok());
  pollfd state{fd->get(), POLLIN, 0};
  EXPECT_EQ(::poll(&state, 1, 0), 0);
  ring_bell(fd->get());
  EXPECT_EQ(::poll(&state, 1, 5000), 1);
  eventfd_drain(fd->get());
  EXPECT_EQ(::poll(&state, 1, 0), 0);
  // What another holder can do to it: flags are the open file's, not the descriptor's.
  ASSERT_EQ(::fcntl(fd->get(), F_SETFL, 0), 0);
  const uint64_t nearly_full = UINT64_MAX - 1;
  (void)!::write(fd->get(), &nearly_full, sizeof nearly_full);
  ring_bell(fd->get());
  ring_bell(fd->get());
  EXPECT_EQ(::poll(&state, 1, 5000), 1);
}

// The letter of /proc/self/task/TID/stat: S = sleeps.
char thread_state(int tid) {
  std::ifstream file("/proc/self/task/" + std::to_string(tid) + "/stat");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const size_t end = text.rfind(')');
  return end == std::string::npos || end + 2 >= text.size() ? '?' : text[end + 2];
}

TEST(Futex, AWaiterOnAReadOnlyMappingSleepsAndWakes) {
  auto fd = make_sealed_memfd("test", 4096);
  auto writer = MappedMemory::map(fd->get(), 0, 4096, Access::kReadWrite);
  auto reader = MappedMemory::map(fd->get(), 0, 4096, Access::kReadOnly);
  ASSERT_TRUE(writer.ok() && reader.ok());
  auto& word = *reinterpret_cast<std::atomic<uint32_t>*>(writer->data());
  const auto& seen = *reinterpret_cast<const std::atomic<uint32_t>*>(reader->data());
  std::promise<int> tid;
  auto returns = std::async(std::launch::async, [&] {
    tid.set_value(static_cast<int>(::syscall(SYS_gettid)));
    int count = 0;
    for (; seen.load() == 0; ++count) futex_wait(seen, 0, kPatienceNs);
    return count;
  });
  const int waiter = tid.get_future().get();
  const uint64_t deadline_ns = monotonic_ns() + kPatienceNs;
  while (thread_state(waiter) != 'S' && monotonic_ns() < deadline_ns) std::this_thread::yield();
  word.store(1);
  futex_wake(word);
  // A wait that failed at once would have come back thousands of times.
  EXPECT_LE(returns.get(), 3);
}

TEST(Futex, DoesNotWaitForAWordThatHasMovedOn) {
  std::atomic<uint32_t> word{5};
  futex_wait(word, 4, UINT64_MAX / 4);
  futex_wait(word, 5, 1000);  // and ends by its timeout
  EXPECT_EQ(word.load(), 5u);
}

TEST(Random, FillsAllAndDiffers) {
  std::vector<std::byte> first(1000), second(1000);
  random_bytes(first);
  random_bytes(second);
  EXPECT_NE(first, second);
  EXPECT_NE(std::vector<std::byte>(first.end() - 16, first.end()), std::vector<std::byte>(16));
  random_bytes({});
}

TEST(MonotonicClock, DoesNotGoBack) {
  const uint64_t first = monotonic_ns();
  EXPECT_GT(first, 0u);
  EXPECT_GE(monotonic_ns(), first);
}

}  // namespace
}  // namespace kvsidecar
