// SPDX-License-Identifier: Apache-2.0
// Goal: bytes go where they should, and every result is what the server knows. Method: files of
// known bytes and known holes, read and written through rings and through the file system.
#include <algorithm>
#include <cstring>
#include <set>

#include "tests/usrbio/clients/bed.h"

namespace kvsidecar::usrbio {
namespace {

class ClientIoTest : public ClientTest {
 protected:
  void SetUp() override {
    ClientTest::SetUp();
    make_tools();
  }
};

TEST_F(ClientIoTest, WhatIsWrittenThroughARingIsReadThroughARing) {
  const UniqueFd fd = open("a");
  const auto file = registered(fd.get());
  const auto content = pattern(100'001, 3);
  std::copy(content.begin(), content.end(), shared_.all().begin());
  ASSERT_EQ(transfer(*tools_.writes, *file, 777, content.size()), 100'001);
  ASSERT_EQ(transfer(*tools_.reads, *file, 777, content.size(), 500'000), 100'001);
  EXPECT_TRUE(std::ranges::equal(bytes(500'000, content.size()), content));
}

TEST_F(ClientIoTest, WhatIsWrittenThroughTheFileSystemIsReadThroughARing) {
  const UniqueFd fd = file_of_chunks("a", {0});
  const auto file = registered(fd.get());
  ASSERT_EQ(transfer(*tools_.reads, *file, 100, 5000), 5000);
  const auto content = pattern(chunk(), 1);
  EXPECT_TRUE(std::ranges::equal(bytes(0, 5000), std::span(content).subspan(100, 5000)));
}

TEST_F(ClientIoTest, AReadPastWhatIsStoredIsShort) {
  const UniqueFd fd = open("a");
  ASSERT_EQ(::pwrite(fd.get(), "0123456789", 10, 0), 10);
  ASSERT_EQ(::fsync(fd.get()), 0);
  const auto file = registered(fd.get());
  EXPECT_EQ(transfer(*tools_.reads, *file, 0, 100), 10);
  EXPECT_EQ(transfer(*tools_.reads, *file, 4, 100), 6);
  EXPECT_EQ(transfer(*tools_.reads, *file, 10, 100), 0);
  EXPECT_EQ(transfer(*tools_.reads, *file, 1 << 30, 100), 0);
}

// usrbio.md §2: holes within a request are zeros, at its end they are a short read.
TEST_F(ClientIoTest, AHoleIsZerosInsideAndShortAtTheEnd) {
  const UniqueFd fd = file_of_chunks("a", {0, 2});
  const auto file = registered(fd.get());
  std::ranges::fill(shared_.all(), std::byte{0xee});
  const auto size = static_cast<int64_t>(chunk());
  EXPECT_EQ(transfer(*tools_.reads, *file, 0, 2 * chunk()), size);
  EXPECT_EQ(transfer(*tools_.reads, *file, chunk(), chunk()), 0);
  ASSERT_EQ(transfer(*tools_.reads, *file, 0, 3 * chunk()), 3 * size);
  EXPECT_TRUE(std::ranges::equal(bytes(0, chunk()), pattern(chunk(), 1)));
  EXPECT_TRUE(
      std::ranges::all_of(bytes(chunk(), chunk()), [](std::byte b) { return b == std::byte{0}; }));
  EXPECT_TRUE(std::ranges::equal(bytes(2 * chunk(), chunk()), pattern(chunk(), 3)));
}

// usrbio.md §11.3: the server adds the hole of one request to the count of the next.
TEST_F(ClientIoTest, ACountAboveWhatWasAskedIsAnErrorAndNotACount) {
  const UniqueFd first = file_of_chunks("a", {3}), second = file_of_chunks("b", {1});
  const auto hole = registered(first.get()), half = registered(second.get());
  Ring& ring = *tools_.reads;
  std::byte* const base = shared_.all().data();
  ASSERT_EQ(ring.prepare(*tools_.memory, base, chunk(), *hole, 0, 1), 0);
  ASSERT_EQ(ring.prepare(*tools_.memory, base + chunk(), 2 * chunk(), *half, 0, 2), 0);
  ring.submit();
  for (const Completion& ended : wait(ring, 2))
    EXPECT_EQ(ended.result, ended.user == 1 ? 0 : -EIO) << ended.user;
}

TEST_F(ClientIoTest, AnIoThatIsRefusedIsNotTaken) {
  const UniqueFd fd = open("a"), reader = open("a", O_RDONLY), writer = open("a", O_WRONLY);
  const auto file = registered(fd.get()), readable = registered(reader.get()),
             writable = registered(writer.get());
  std::byte* const base = shared_.all().data();
  const size_t all = shared_.all().size();
  const auto prepare = [&](Ring& ring, std::byte* address, uint64_t count, const File& of,
                           uint64_t offset) {
    return ring.prepare(*tools_.memory, address, count, of, offset, 1);
  };
  EXPECT_EQ(prepare(*tools_.reads, base, 0, *file, 0), -EINVAL);
  EXPECT_EQ(prepare(*tools_.reads, base - 1, 10, *file, 0), -EINVAL);
  EXPECT_EQ(prepare(*tools_.reads, base + all - 9, 10, *file, 0), -EINVAL);
  EXPECT_EQ(prepare(*tools_.reads, base, all + 1, *file, 0), -EINVAL);
  EXPECT_EQ(prepare(*tools_.reads, base + 1, UINT64_MAX, *file, 0), -EINVAL);
  EXPECT_EQ(prepare(*tools_.reads, base, 10, *file, UINT64_MAX - 5), -EINVAL);
  EXPECT_EQ(prepare(*tools_.reads, base, 10, *writable, 0), -EACCES);
  EXPECT_EQ(prepare(*tools_.writes, base, 10, *readable, 0), -EACCES);
  EXPECT_EQ(transfer(*tools_.writes, *writable, 0, 10), 10);
  EXPECT_EQ(transfer(*tools_.reads, *readable, 0, 10), 10);
}

TEST_F(ClientIoTest, ManyAtOnceAreEachTheirOwn) {
  constexpr size_t kCount = 64, kEach = 4096;
  const UniqueFd fd = open("a");
  const auto file = registered(fd.get());
  const auto content = pattern(kCount * kEach, 9);
  std::copy(content.begin(), content.end(), shared_.all().begin());
  for (Ring* ring : {tools_.writes.get(), tools_.reads.get()}) {
    std::set<uint64_t> users;
    for (size_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(ring->prepare(*tools_.memory, shared_.all().data() + i * kEach, kEach, *file,
                              (kCount - 1 - i) * kEach, i),
                0);
    }
    ring->submit();
    for (const Completion& ended : wait(*ring, kCount)) {
      EXPECT_EQ(ended.result, static_cast<int64_t>(kEach));
      EXPECT_TRUE(users.insert(ended.user).second);
    }
    EXPECT_EQ(users.size(), kCount);
    if (ring == tools_.writes.get()) std::ranges::fill(shared_.all(), std::byte{0});
  }
  EXPECT_TRUE(std::ranges::equal(bytes(0, content.size()), content));
}

TEST_F(ClientIoTest, AFullRingSaysSoAndGoesOnAfterwards) {
  const UniqueFd fd = file_of_chunks("a", {0});
  const auto file = registered(fd.get());
  auto ring = tools_.client->make_ring({.entries = 4}).take();
  subject().fault("read.stall", "on");
  const auto prepare = [&](uint64_t user) {
    return ring->prepare(*tools_.memory, shared_.all().data() + user * 10, 10, *file, 0, user);
  };
  for (uint64_t user = 0; user < 4; ++user) ASSERT_EQ(prepare(user), 0);
  EXPECT_EQ(prepare(4), -EAGAIN);
  ring->submit();
  EXPECT_EQ(prepare(4), -EAGAIN);
  subject().clear_faults();
  EXPECT_EQ(wait(*ring, 4).size(), 4u);
  EXPECT_EQ(prepare(4), 0);
  ring->submit();
  EXPECT_EQ(wait(*ring, 1)[0].user, 4u);
}

TEST_F(ClientIoTest, AnErrorOfTheServerIsTheRequestsResult) {
  const UniqueFd fd = file_of_chunks("a", {0});
  const auto file = registered(fd.get());
  subject().fault("read.error", "EREMOTEIO");
  EXPECT_EQ(transfer(*tools_.reads, *file, 0, 10), -EREMOTEIO);
  subject().clear_faults();
  subject().fault("write.error", "ENOSPC");
  EXPECT_EQ(transfer(*tools_.writes, *file, 0, 10), -ENOSPC);
}

TEST_F(ClientIoTest, ACompletionThatNeverComesCostsItsSlotOnly) {
  const UniqueFd fd = file_of_chunks("a", {0});
  const auto file = registered(fd.get());
  subject().fault("read.lost", "on@1");
  Ring& ring = *tools_.reads;
  ASSERT_EQ(ring.prepare(*tools_.memory, shared_.all().data(), 10, *file, 0, 1), 0);
  ring.submit();
  ASSERT_TRUE(eventually([] { return subject().count("lost") > 0; }));
  for (int i = 0; i < 200; ++i) ASSERT_EQ(transfer(ring, *file, 0, 10, 4096), 10);
  EXPECT_TRUE(ring.fault().ok()) << ring.fault().text();
}

TEST_F(ClientIoTest, HasCompletionSaysWhetherPollWillFindOne) {
  const UniqueFd fd = file_of_chunks("a", {0});
  const auto file = registered(fd.get());
  EXPECT_FALSE(tools_.reads->has_completion());
  ASSERT_EQ(tools_.reads->prepare(*tools_.memory, shared_.all().data(), 10, *file, 0, 5), 0);
  tools_.reads->submit();
  ASSERT_TRUE(eventually([this] { return tools_.reads->has_completion(); }));
  Completion ended;
  ASSERT_EQ(tools_.reads->poll({&ended, 1}), 1u);
  EXPECT_EQ(ended.user, 5u);
  EXPECT_FALSE(tools_.reads->has_completion());
}

}  // namespace
}  // namespace kvsidecar::usrbio
