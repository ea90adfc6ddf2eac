// SPDX-License-Identifier: Apache-2.0
// Goal: rings are made, registered under the right key and given back. Method: the four ways to
// make one, good and bad arguments, and the links that they leave.
#include <sys/stat.h>

#include "tests/usrbio/abi/bed.h"

namespace kvsidecar::abi {
namespace {

class Rings : public Bed {
 protected:
  // Whether a ring is registered under this suffix of its id.
  static bool has_link(const hf3fs_ior& ring, const std::string& suffix) {
    Iov named;
    std::copy(std::begin(ring.iov.id), std::end(ring.iov.id), named.id);
    std::copy(std::begin(ring.mount_point), std::end(ring.mount_point), named.mount_point);
    struct stat about {};
    return ::lstat((named.link() + suffix).c_str(), &about) == 0;
  }
  int create(Ring& ring, const char* mount, int entries, int depth = 0, int timeout = 0) {
    return library_.iorcreate4(&ring, mount, entries, true, depth, timeout, -1, 0);
  }
};

TEST_F(Rings, FourWaysMakeTheSameThing) {
  const char* const at = mount().c_str();
  Ring first, second, third, fourth;
  ASSERT_EQ(library_.iorcreate(&first, at, 4, true, 0, -1), 0);
  ASSERT_EQ(library_.iorcreate2(&second, at, 4, false, -2, 0, -1), 0);
  ASSERT_EQ(library_.iorcreate3(&third, at, 4, true, 4, 0, 5, -1), 0);
  ASSERT_EQ(library_.iorcreate4(&fourth, at, 4, true, 0, 5, -1, kReadUncommitted), 0);
  for (const Ring* ring : {&first, &second, &third, &fourth}) {
    EXPECT_NE(ring->iorh, nullptr);
    EXPECT_STREQ(ring->mount_point, at);
    EXPECT_EQ(library_.io_entries(ring), 4);
  }
  EXPECT_FALSE(second.for_read);
  EXPECT_EQ(second.io_depth, -2);
  EXPECT_EQ(third.timeout, 5);
  EXPECT_EQ(fourth.flags, kReadUncommitted);
  EXPECT_TRUE(has_link(first, ".r0.t0"));
  EXPECT_TRUE(has_link(second, ".w-2.t0"));
  EXPECT_TRUE(has_link(third, ".r4.t5"));
  EXPECT_TRUE(has_link(fourth, ".r0.t5.f1"));
}

TEST_F(Rings, ThePrioritiesSignDecides) {
  Ring high, normal, low;
  ASSERT_EQ(library_.iorcreate2(&high, mount().c_str(), 4, false, 0, -7, -1), 0);
  ASSERT_EQ(library_.iorcreate2(&normal, mount().c_str(), 4, false, 0, 0, -1), 0);
  ASSERT_EQ(library_.iorcreate2(&low, mount().c_str(), 4, false, 0, 3, -1), 0);
  EXPECT_TRUE(has_link(high, ".w0.ph.t0"));
  EXPECT_TRUE(has_link(normal, ".w0.t0"));
  EXPECT_TRUE(has_link(low, ".w0.pl.t0"));
}

TEST_F(Rings, EachPrioritysSubmitIsHeard) {
  const UniqueFd made = file("a", pattern(100));
  const Registered registered(made.get());
  Iov iov;
  make(iov, 4096);
  for (const int priority : {-1, 0, 1}) {
    Ring ring;
    ASSERT_EQ(library_.iorcreate2(&ring, mount().c_str(), 4, true, 0, priority, -1), 0);
    ASSERT_EQ(prepare_read(ring, iov, 0, made.get(), 0, 100, 1), 0);
    ASSERT_EQ(library_.submit_ios(&ring), 0);
    EXPECT_EQ(wait(ring, 1)[0].result, 100);
  }
}

TEST_F(Rings, BadArgumentsAreRefused) {
  Ring ring;
  const char* const at = mount().c_str();
  EXPECT_EQ(library_.iorcreate4(nullptr, at, 4, true, 0, 0, -1, 0), -EINVAL);
  EXPECT_EQ(create(ring, nullptr, 4), -EINVAL);
  EXPECT_EQ(create(ring, "", 4), -EINVAL);
  EXPECT_EQ(create(ring, std::string(256, 'a').c_str(), 4), -EINVAL);
  EXPECT_EQ(create(ring, at, 4, 0, -1), -EINVAL);
  EXPECT_EQ(create(ring, at, 0), -EINVAL);
  EXPECT_EQ(create(ring, at, 4, 5), -EINVAL);
  EXPECT_EQ(create(ring, at, 4, 4), 0);
}

TEST_F(Rings, AFolderThatIsNoMountHasNone) {
  Ring ring;
  EXPECT_EQ(create(ring, folder_.c_str(), 4), -ENOENT);
  EXPECT_EQ(create(ring, "/nowhere", 4), -ENOENT);
}

TEST_F(Rings, DestroyingNothingIsFine) {
  hf3fs_ior zeroed{};
  library_.iordestroy(&zeroed);
  library_.iordestroy(nullptr);
}

TEST_F(Rings, DestroyingTakesTheLinkAway) {
  hf3fs_ior named{};
  {
    Ring ring;
    make(ring, 4, true, -3);
    named = ring;
    EXPECT_TRUE(has_link(named, ".r-3.t0"));
  }
  EXPECT_FALSE(has_link(named, ".r-3.t0"));
}

// Upstream registers `.f10` and takes `.f2` away.
TEST_F(Rings, OneOfFlagsTwoMayStayForEver) {
  hf3fs_ior named{};
  {
    Ring ring;
    make(ring, 4, true, 0, 0, kForbidReadHoles);
    named = ring;
    EXPECT_TRUE(has_link(named, ".r0.t0.f10"));
  }
  EXPECT_EQ(has_link(named, ".r0.t0.f10"), traits_.leaks_rings_of_higher_flags);
}

TEST_F(Rings, ManyOfThemLiveBesideEachOther) {
  const UniqueFd made = file("a", pattern(100));
  const Registered registered(made.get());
  Iov iov;
  make(iov, 4096);
  std::vector<std::unique_ptr<Ring>> rings;
  for (uint64_t i = 0; i < 20; ++i) {
    rings.push_back(std::make_unique<Ring>());
    make(*rings.back(), 2);
    ASSERT_EQ(prepare_read(*rings.back(), iov, i * 100, made.get(), 0, 100, i), 0);
    ASSERT_EQ(library_.submit_ios(rings.back().get()), 0);
  }
  for (uint64_t i = 0; i < 20; ++i) {
    const hf3fs_cqe done = wait(*rings[i], 1)[0];
    EXPECT_EQ(done.userdata, tag(i));
    EXPECT_EQ(done.result, 100);
  }
}

}  // namespace
}  // namespace kvsidecar::abi
