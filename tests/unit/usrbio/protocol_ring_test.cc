// SPDX-License-Identifier: Apache-2.0
// Goal: a ring comes whole or not at all, and leaves nothing. Method: a plain folder in the place
// of the mount; each step of its making fails in turn; names, descriptors and links are counted.
#include "sidecar/store/usrbio/protocol_ring.h"

#include <sys/file.h>

#include "tests/support/fakes.h"
#include "tests/unit/usrbio/plain_mount.h"
#include "tests/unit/usrbio/ring_server.h"

namespace kvsidecar::usrbio {
namespace {

class ProtocolRingTest : public PlainMountTest {
 protected:
  static std::string made_name() {
    const std::string name = "/dev/shm/kvsidecar-ring." + id_text(make_id());
    std::ofstream(name) << "x";
    return name;
  }
};

TEST_F(ProtocolRingTest, ItIsRegisteredWithItsTermsAndItsFileHasNoNameAnyMore) {
  const auto before = ring_files();
  auto ring = ProtocolRing::make(open_mount(), 64, {.for_read = true, .io_depth = -4});
  ASSERT_TRUE(ring.ok()) << ring.status().text();
  EXPECT_EQ(keys(), (std::set<std::string>{id_text((*ring)->id()) + ".r-4.t0"}));
  EXPECT_EQ(ring_files(), before);
  EXPECT_EQ((*ring)->memory().size(), 10384u);
  ring->reset();
  EXPECT_TRUE(keys().empty());
}

TEST_F(ProtocolRingTest, WhatIsPreparedIsInItsMemoryAndSubmitPostsTheDaemonsSemaphore) {
  auto ring = ProtocolRing::make(open_mount(), 4, {});
  ASSERT_TRUE(ring.ok());
  RingServer server((*ring)->memory().data(), 4);
  EXPECT_EQ((*ring)->end().prepare({{}, 1, 2, 3, 4}, 9), 0);
  EXPECT_EQ(submits(), 0);
  (*ring)->submit();
  EXPECT_EQ(submits(), 1);
  EXPECT_EQ(server.serve(4).index, 0);
  EXPECT_TRUE((*ring)->end().has_completion());
}

TEST_F(ProtocolRingTest, EntriesOutOfRangeAreRefused) {
  for (const uint32_t entries : {0u, kRingEntriesMax + 1, UINT32_MAX})
    EXPECT_EQ(ProtocolRing::make(open_mount(), entries, {}).status().code(), Code::kInvalid);
}

TEST_F(ProtocolRingTest, EachStepThatFailsLeavesNothing) {
  const auto files = ring_files();
  const size_t opened = open_files();
  std::set<std::string> failed;
  for (int nth = 1;; ++nth) {
    NthFault faults(nth);
    {
      auto mount = Mount::open(point_, faults);
      auto ring = mount ? ProtocolRing::make(*mount, 8, {}) : mount.status();
      EXPECT_EQ(ring.ok(), faults.failed().empty()) << faults.failed();
      EXPECT_EQ(ring.status().text().empty(), ring.ok());
    }
    EXPECT_TRUE(keys().empty()) << faults.failed();
    EXPECT_EQ(ring_files(), files) << faults.failed();
    EXPECT_EQ(open_files(), opened) << faults.failed();
    if (faults.failed().empty()) break;
    failed.insert(faults.failed());
  }
  EXPECT_EQ(failed, (std::set<std::string>{"usrbio.mount.open", "usrbio.semaphore.link",
                                           "usrbio.semaphore.open", "usrbio.ring.open",
                                           "usrbio.ring.allocate", "usrbio.ring.map",
                                           "usrbio.ring.link", "usrbio.register"}));
}

TEST_F(ProtocolRingTest, ASmallSharedMemoryIsASentence) {
  testing::PlannedFaults faults;
  faults.fail_next("usrbio.ring.allocate", ENOSPC);
  const auto ring = ProtocolRing::make(open_mount(faults), 8, {});
  EXPECT_EQ(ring.status().code(), Code::kUnavailable);
  EXPECT_NE(ring.status().text().find("/dev/shm has no room"), std::string::npos);
}

TEST_F(ProtocolRingTest, ASemaphoreElsewhereIsRefused) {
  const std::string elsewhere = point_ + "/semaphore";
  std::ofstream(elsewhere) << std::string(64, '\0');
  const std::string link = semaphore_ + ".link";
  ASSERT_EQ(::symlink(semaphore_.c_str(), link.c_str()), 0);
  const std::string small = semaphore_ + ".small";
  std::ofstream(small) << "x";
  for (const std::string& target :
       {elsewhere, std::string("/dev/shm/sem."), std::string("/dev/shm/sem.a/../b"),
        std::string("/dev/shm/other"), link, small, std::string("/dev/shm/sem.missing")}) {
    point_submits_at(target);
    const auto ring = ProtocolRing::make(open_mount(), 8, {});
    EXPECT_EQ(ring.status().code(), Code::kUnavailable) << target;
    EXPECT_NE(ring.status().text().find("submit-ios"), std::string::npos);
  }
  ::unlink(link.c_str());
  ::unlink(small.c_str());
  EXPECT_TRUE(keys().empty());
}

TEST_F(ProtocolRingTest, ARingsFileIsZeroedAllocatedAndOnlyOurs) {
  auto file = RingFile::make(100'000, no_faults());
  ASSERT_TRUE(file.ok()) << file.status().text();
  struct stat facts {};
  ASSERT_EQ(::stat((*file)->path().c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
  EXPECT_EQ(facts.st_size, 100'000);
  EXPECT_GE(facts.st_blocks * 512, 100'000);
  for (size_t i = 0; i < 100'000; ++i) ASSERT_EQ((*file)->data()[i], std::byte{0});
}

TEST_F(ProtocolRingTest, WhatADeadProcessLeftIsSweptAndWhatIsInUseStays) {
  const std::string left = made_name();
  const std::string foreign = "/dev/shm/kvsidecar-ring.something-else" + id_text(make_id());
  std::ofstream(foreign) << "x";
  auto used = RingFile::make(4096, no_faults());
  ASSERT_TRUE(used.ok());
  RingFile::sweep();
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_TRUE(std::filesystem::exists(foreign));
  EXPECT_TRUE(std::filesystem::exists((*used)->path()));
  ::unlink(foreign.c_str());
}

}  // namespace
}  // namespace kvsidecar::usrbio
