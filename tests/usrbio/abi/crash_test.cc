// SPDX-License-Identifier: Apache-2.0
// Goal: what the genuine library dies of, and that others answer instead. Method: each call in a
// process of its own.
#include <csignal>

#include "tests/usrbio/abi/bed.h"

namespace kvsidecar::abi {
namespace {

class Crash : public Bed {
 protected:
  void expect(const Ending& ending, int signal, int otherwise) const {
    if (traits_.dies) {
      EXPECT_EQ(ending.kind, Ending::Kind::kSignal);
      EXPECT_EQ(ending.value, signal);
    } else {
      EXPECT_EQ(ending.kind, Ending::Kind::kReturned);
      EXPECT_EQ(ending.value, otherwise);
    }
  }
};

TEST_F(Crash, MemoryOfNoSize) {
  expect(in_a_child([&] {
           hf3fs_iov iov{};
           return library_.iovcreate(&iov, mount().c_str(), 0, 0, -1);
         }),
         SIGFPE, -EINVAL);
}

TEST_F(Crash, MemoryOnNoMount) {
  expect(in_a_child([&] {
           hf3fs_iov iov{};
           return library_.iovcreate(&iov, nullptr, 4096, 0, -1);
         }),
         SIGSEGV, -EINVAL);
}

TEST_F(Crash, ABlockLargerThanTheMemory) {
  const Ending ending = in_a_child([&] {
    hf3fs_iov iov{};
    return library_.iovcreate(&iov, mount().c_str(), 4096, 8192, -1);
  });
  if (traits_.throws) {
    EXPECT_EQ(ending.kind, Ending::Kind::kThrew);
  } else {
    EXPECT_EQ(ending.kind, Ending::Kind::kReturned);
    EXPECT_EQ(ending.value, -EINVAL);
  }
}

TEST_F(Crash, UnlinkingMemoryThatWasOnlyWrapped) {
  expect(in_a_child([&] {
           uint8_t memory[64];
           const uint8_t id[16] = {1};
           hf3fs_iov iov{};
           library_.iovwrap(&iov, memory, id, mount().c_str(), sizeof memory, 0, -1);
           library_.iovunlink(&iov);
           return 0;
         }),
         SIGSEGV, 0);
}

TEST_F(Crash, MoreThanAThousandRangesToPunch) {
  const UniqueFd made = file("a", pattern(100));
  const std::vector<size_t> borders(1001);
  expect(in_a_child([&] {
           return library_.punchhole(made.get(), 1001, borders.data(), borders.data(), 0);
         }),
         SIGABRT, EINVAL);
}

}  // namespace
}  // namespace kvsidecar::abi
