// SPDX-License-Identifier: Apache-2.0
// Goal: a call that fails has done nothing: what is given back afterwards leaves no descriptor, no
// link and no shared memory. Method: one scenario in which the n-th call fails, for each n, until
// it passes whole.
#include <fcntl.h>

#include <filesystem>

#include "tests/usrbio/abi/bed.h"

namespace kvsidecar::abi {
namespace {

class NthCall : public Bed {
 protected:
  struct Left {
    size_t descriptors = 0, links = 0;
    int64_t iovs = 0, rings = 0, registered = 0, duplicates = 0;
    bool operator==(const Left&) const = default;
  };
  Left left() const {
    namespace fs = std::filesystem;
    Left now;
    now.descriptors = open_descriptors();
    now.links = static_cast<size_t>(std::distance(
        fs::directory_iterator(mount() + "/3fs-virt/iovs"), fs::directory_iterator()));
    now.iovs = subject().count("iovs");
    now.rings = subject().count("rings");
    now.registered = subject().count("registered");
    now.duplicates = subject().count("dups");
    return now;
  }

  // All of it succeeded.
  bool scenario() {
    const UniqueFd opened = open("a", O_RDONLY);
    if (!library_.is_hf3fs(opened.get())) return false;
    char found[512];
    if (library_.extract_mount_point(found, sizeof found, folder_.c_str()) < 0) return false;
    Iov iov, other;
    if (library_.iovcreate(&iov, mount().c_str(), 4096, 0, -1) != 0) return false;
    if (library_.iovopen(&other, iov.id, mount().c_str(), 4096, 0, -1) != 0) return false;
    Ring ring;
    if (library_.iorcreate4(&ring, mount().c_str(), 4, true, 0, 0, -1, 0) != 0) return false;
    const Registered registered(opened.get());
    if (registered.answer() > 0) return false;
    if (prepare_read(ring, iov, 0, opened.get(), 0, 10, 1) < 0) return false;
    if (library_.submit_ios(&ring) != 0) return false;
    hf3fs_cqe done{};
    return library_.wait_for_ios(&ring, &done, 1, 1, nullptr) == 1 && done.result == 10;
  }
};

TEST_F(NthCall, EachFailureLeavesNothing) {
  if (!subject().fail_call(0, 0)) GTEST_SKIP() << traits_.name << " can't be made to fail";
  static_cast<void>(file("a", pattern(100)));
  ASSERT_TRUE(scenario());
  const Left before = left();
  uint64_t nth = 1;
  for (bool passed = false; !passed; ++nth) {
    ASSERT_LT(nth, 100u);
    subject().fail_call(nth, EMFILE);
    passed = scenario();
    subject().fail_call(0, 0);
    EXPECT_EQ(left(), before) << "call " << nth;
  }
  EXPECT_EQ(nth, 11u);  // each of the nine calls has failed, then none did
}

}  // namespace
}  // namespace kvsidecar::abi
