// SPDX-License-Identifier: Apache-2.0
// Goal: memory, files and rings are taken and given back; what can't be taken is a sentence;
// whatever fails leaves nothing. Method: the server's faults; names, descriptors and the server's
// own tables counted before and after.
#include "sidecar/store/usrbio/keys.h"
#include "tests/usrbio/clients/bed.h"

namespace kvsidecar::usrbio {
namespace {

using ClientRegisteringTest = ClientTest;

TEST_F(ClientRegisteringTest, TheClientSaysWhatItIsAndWhere) {
  make_tools();
  EXPECT_EQ(tools_.client->describe().find(subject().name()), 0u) << tools_.client->describe();
  EXPECT_EQ(tools_.client->mount_point(), subject().mount());
  EXPECT_TRUE(tools_.client->alive());
}

TEST_F(ClientRegisteringTest, APathThatIsNotThereYetIsTakenForItsParent) {
  EXPECT_EQ(tools_.make(folder_ + "/not/yet", shared_).text(), "");
  EXPECT_EQ(tools_.client->mount_point(), subject().mount());
}

TEST_F(ClientRegisteringTest, EverythingIsGivenBack) {
  const UniqueFd fd = open("a");
  {
    Tools first;
    ASSERT_TRUE(first.make(folder_, shared_).ok());
  }  // what the library keeps
  const auto before = belongings();
  for (int round = 0; round < 3; ++round) {
    Tools tools;
    ASSERT_EQ(tools.make(folder_, shared_).text(), "");
    EXPECT_EQ(subject().count("rings"), before.at("rings") + 2);
    EXPECT_EQ(subject().count("iovs"), before.at("iovs") + 1);
    auto file = tools.client->register_file(fd.get());
    ASSERT_TRUE(file.ok()) << file.status().text();
  }
  EXPECT_EQ(belongings(), before);
}

TEST_F(ClientRegisteringTest, MemoryRegisteredTwiceIsUsableByBothNames) {
  make_tools();
  const UniqueFd fd = file_of_chunks("a", {0});
  const auto file = registered(fd.get());
  auto again = tools_.client->register_memory(shared_.path(), shared_.all().first(4096));
  ASSERT_TRUE(again.ok()) << again.status().text();
  const auto read_into = [&](const Memory& memory) {
    if (const int error = tools_.reads->prepare(memory, shared_.all().data(), 10, *file, 0, 1))
      return static_cast<int64_t>(error);
    tools_.reads->submit();
    return wait(*tools_.reads, 1)[0].result;
  };
  EXPECT_EQ(read_into(**again), 10);
  EXPECT_EQ(read_into(*tools_.memory), 10);
  again->reset();
  EXPECT_EQ(read_into(*tools_.memory), 10);
}

TEST_F(ClientRegisteringTest, MemoryThatThreeFsCannotHaveIsASentence) {
  make_tools();
  for (const std::string& elsewhere : {folder_ + "/a", std::string("/dev/shm/a/b")}) {
    const auto refused = tools_.client->register_memory(elsewhere, shared_.all());
    EXPECT_EQ(refused.status().code(), Code::kInvalid);
    EXPECT_NE(refused.status().text().find("/dev/shm"), std::string::npos);
  }
}

TEST_F(ClientRegisteringTest, AFileElsewhereIsASentence) {
  make_tools();
  const UniqueFd other(::open("/proc/self/status", O_RDONLY | O_CLOEXEC));
  const auto refused = tools_.client->register_file(other.get());
  EXPECT_EQ(refused.status().code(), Code::kInvalid);
  EXPECT_FALSE(tools_.client->register_file(-1).ok());
}

TEST_F(ClientRegisteringTest, RingsThatWouldHangOrCrashTheServerAreASentence) {
  make_tools();
  for (const RingOptions& options : {RingOptions{.entries = 0}, RingOptions{.entries = UINT32_MAX},
                                     RingOptions{.entries = 8, .io_depth = 4}})
    EXPECT_EQ(tools_.client->make_ring(options).status().code(), Code::kInvalid);
  EXPECT_TRUE(tools_.client->make_ring({.entries = 1, .io_depth = -3}).ok());
}

TEST_F(ClientRegisteringTest, AFullTableOfTheServerIsASentence) {
  make_tools();
  subject().fault("rings.max", "2");
  const auto refused = tools_.client->make_ring({.entries = 4});
  EXPECT_EQ(refused.status().code(), Code::kUnavailable);
  EXPECT_NE(refused.status().text(), "");
  subject().clear_faults();
  EXPECT_TRUE(tools_.client->make_ring({.entries = 4}).ok());
}

// usrbio.md §2: the registration succeeds, the memory's pinning doesn't.
TEST_F(ClientRegisteringTest, MemoryThatCouldNotBePinnedShowsInItsIo) {
  subject().fault("iov.unpinned", "on");
  make_tools();
  const UniqueFd fd = file_of_chunks("a", {0});
  const auto file = registered(fd.get());
  EXPECT_EQ(transfer(*tools_.reads, *file, 0, 10), -EACCES);
}

TEST_F(ClientRegisteringTest, AFileRegisteredAgainAfterItsCloseIsTheNewOne) {
  make_tools();
  UniqueFd fd = file_of_chunks("a", {0});
  const int number = fd.get();
  registered(number).reset();
  fd = file_of_chunks("b", {2});
  UniqueFd moved;
  if (fd.get() != number) {
    ASSERT_EQ(::dup3(fd.get(), number, O_CLOEXEC), number);
    moved.reset(number);
  }
  const auto file = registered(number);
  EXPECT_EQ(transfer(*tools_.reads, *file, 0, 10), 0);
}

// usrbio.md §9.7: the server drops what a thread made when one of its handles is closed.
TEST_F(ClientRegisteringTest, AClientThatGoesTakesNothingOfAnotherOnTheSameThread) {
  Tools first;
  ASSERT_EQ(first.make(folder_, shared_).text(), "");
  make_tools();
  first = {};
  const UniqueFd fd = file_of_chunks("a", {0});
  const auto file = registered(fd.get());
  EXPECT_EQ(transfer(*tools_.reads, *file, 0, 10), 10);
  EXPECT_TRUE(tools_.client->alive());
}

TEST_F(ClientRegisteringTest, EachCallThatFailsLeavesNothing) {
  const UniqueFd fd = file_of_chunks("a", {0});
  {
    Tools first;
    ASSERT_TRUE(first.make(folder_, shared_).ok());
  }
  const auto before = belongings();
  int failures = 0;
  const auto reads_one = [&] {
    Tools tools;
    if (!tools.make(folder_, shared_).ok()) return false;
    auto file = tools.client->register_file(fd.get());
    if (!file) return false;
    Ring& ring = *tools.reads;
    if (ring.prepare(*tools.memory, shared_.all().data(), 10, **file, 0, 1) != 0) return false;
    ring.submit();
    Completion ended;
    return eventually([&] {
             return ring.poll({&ended, 1}) == 1 || !ring.fault().ok();
           }) &&
           ring.fault().ok();
  };
  subject().fail_each_call(
      [&] { failures += !reads_one(); },
      [&](const std::string& what) { EXPECT_EQ(belongings(), before) << what; });
  EXPECT_GE(failures, 6);
  EXPECT_TRUE(reads_one());
}

}  // namespace
}  // namespace kvsidecar::usrbio
