// SPDX-License-Identifier: Apache-2.0
// Goal: a pool is only promised memory that there is, by whichever source is tightest, and what is
// refused names that source and what to do (O3-14). Method: the kernel's files in a folder of the
// test's own; plans over a directory in /dev/shm.
#include "ipc/memory_room.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "sidecar/pool/chunk_files.h"

namespace kvsidecar {
namespace {

namespace fs = std::filesystem;
constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kMachine = 15 * kMiB;  // of 16 MiB: a sixteenth is left to others

class MemoryRoomTest : public testing::Test {
 protected:
  MemoryRoomTest() {
    char name[] = "/dev/shm/kvsidecar-test-XXXXXX";
    folder_ = mkdtemp(name);
    sources_ = {.proc = folder_ + "/proc", .sys = folder_ + "/sys"};
    say("proc/meminfo", "MemTotal: 9999999 kB\nMemAvailable:   16384 kB\nHugePages_Free: 7\n");
    say("proc/self/cgroup", "4:memory:/elsewhere\n0::/system.slice/kvsidecar.service\n");
  }
  ~MemoryRoomTest() override { fs::remove_all(folder_); }

  void say(const std::string& file, const std::string& text) {
    fs::create_directories(fs::path(folder_ + "/" + file).parent_path());
    std::ofstream(folder_ + "/" + file) << text;
  }
  void limit(const std::string& group, const std::string& max, uint64_t used,
             const std::string& stat = "anon 5\n") {
    const std::string at = "sys/fs/cgroup" + group + "/memory.";
    say(at + "max", max + "\n");
    say(at + "current", std::to_string(used) + "\n");
    say(at + "stat", stat);
  }
  MemoryRoom room() const { return ordinary_room(sources_); }

  std::string folder_;
  MemorySources sources_;
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(MemoryRoomTest, WithoutACgroupLimitItIsWhatTheMachineHas) {
  EXPECT_EQ(room().bytes, kMachine);
  EXPECT_TRUE(has(room().source, "MemAvailable")) << room().source;
  limit("/system.slice/kvsidecar.service", "max", 5 * kMiB);
  EXPECT_EQ(room().bytes, kMachine);
  limit("/system.slice/kvsidecar.service", std::to_string(100 * kMiB), 5 * kMiB);
  EXPECT_EQ(room().bytes, kMachine) << "a limit above what there is limits nothing";
}

TEST_F(MemoryRoomTest, OfAMachinesMemoryASixteenthIsLeftToOthersUpToFourGibibytes) {
  constexpr uint64_t kGiB = 1 << 30;
  say("proc/meminfo", "MemAvailable: " + std::to_string(32 * kGiB / 1024) + " kB\n");
  EXPECT_EQ(room().bytes, 30 * kGiB);
  EXPECT_TRUE(has(room().source, "2048 MiB are left to others")) << room().source;
  say("proc/meminfo", "MemAvailable: " + std::to_string(2048 * kGiB / 1024) + " kB\n");
  EXPECT_EQ(room().bytes, 2044 * kGiB);
}

TEST_F(MemoryRoomTest, ItsOwnCgroupAndEachAboveItLimitIt) {
  for (const char* group : {"/system.slice/kvsidecar.service", "/system.slice", ""}) {
    limit(group, std::to_string(4 * kMiB), kMiB);
    const MemoryRoom found = room();
    EXPECT_EQ(found.bytes, 3 * kMiB) << group;
    EXPECT_TRUE(has(found.source, group[0] == 0 ? "cgroup / " : group)) << found.source;
    EXPECT_TRUE(has(found.source, "memory.max")) << found.source;
    EXPECT_TRUE(has(found.source, "4194304")) << found.source;
    EXPECT_TRUE(has(found.remedy, "MemoryMax")) << found.remedy;
    limit(group, "max", kMiB);
  }
  limit("/other.slice", "4096", 0);
  limit("/elsewhere", "4096", 0);
  EXPECT_EQ(room().bytes, kMachine) << "others' limits are not ours";
}

TEST_F(MemoryRoomTest, CachesThatWouldGiveWayAreNotUsed) {
  const std::string group = "/system.slice";
  limit(group, std::to_string(4 * kMiB), 4 * kMiB,
        "anon 10\nfile 9999999\ninactive_file 1048576\nactive_file 524288\n"
        "slab_reclaimable 524288\nshmem 2097152\n");
  EXPECT_EQ(room().bytes, 2 * kMiB) << "shared memory stays, file pages go";
  limit(group, std::to_string(4 * kMiB), kMiB, "inactive_file 99999999\n");
  EXPECT_EQ(room().bytes, 4 * kMiB) << "at most all of it is free";
  limit(group, std::to_string(4 * kMiB), 5 * kMiB);
  EXPECT_EQ(room().bytes, 0u) << "a limit that was lowered below what is used";
}

TEST_F(MemoryRoomTest, OddFilesLimitNothing) {
  for (const char* line : {"", "0::/\n", "0::/../../outside\n", "0:/x\n", "garbage"}) {
    say("proc/self/cgroup", line);
    EXPECT_EQ(room().bytes, kMachine) << line;
  }
  say("proc/self/cgroup", "0::/system.slice\n");
  for (const char* max : {"", "max", "12x", "-1", "99999999999999999999999"}) {
    limit("/system.slice", max, 0);
    EXPECT_EQ(room().bytes, kMachine) << max;
  }
  say("proc/meminfo", "MemTotal: 1 kB\n");
  EXPECT_EQ(room().bytes, UINT64_MAX);
}

TEST_F(MemoryRoomTest, HugePagesAreCountedByThemselves) {
  const std::string at = "sys/kernel/mm/hugepages/hugepages-2048kB/";
  EXPECT_EQ(huge_page_room(sources_, 2 * kMiB).bytes, 0u);
  say(at + "free_hugepages", "10\n");
  say(at + "resv_hugepages", "4\n");
  say("proc/meminfo", "MemAvailable: 1 kB\n");
  const MemoryRoom found = huge_page_room(sources_, 2 * kMiB);
  EXPECT_EQ(found.bytes, 12 * kMiB) << "free, not promised, whatever ordinary memory there is";
  EXPECT_TRUE(has(found.source, "6 huge pages of 2048kB")) << found.source;
  EXPECT_TRUE(has(found.remedy, "nr_hugepages")) << found.remedy;
  say(at + "resv_hugepages", "11\n");
  EXPECT_EQ(huge_page_room(sources_, 2 * kMiB).bytes, 0u);
}

TEST_F(MemoryRoomTest, APoolAboveTheCgroupsLimitIsRefusedWithBothFiguresAndTheRemedy) {
  ChunkPlan plan{.directory = folder_,
                 .pool = "unit",
                 .chunk_bytes = kMiB,
                 .pool_bytes = 4 * kMiB,
                 .sources = sources_};
  EXPECT_TRUE(check_plan(plan).ok());
  limit("/system.slice", std::to_string(3 * kMiB), kMiB / 2);
  EXPECT_EQ(*free_bytes(plan), 5 * kMiB / 2) << "what \"auto\" is half of";
  const Status refused = check_plan(plan);
  EXPECT_EQ(refused.code(), Code::kInvalid);
  for (const char* part : {"host_pool.bytes", "4 MiB", "/system.slice", "memory.max", "3145728",
                           "at most 2097152", "raise that limit"})
    EXPECT_TRUE(has(refused.text(), part)) << part << ": " << refused.text();
  plan.pool_bytes = 2 * kMiB;
  EXPECT_TRUE(check_plan(plan).ok());
  auto chunk = open_chunk(plan, 0, no_faults());
  ASSERT_TRUE(chunk.ok());
  close_chunk(*chunk);
  plan.pool_bytes = 3 * kMiB;
  EXPECT_TRUE(check_plan(plan).ok()) << "a chunk that exists takes nothing new";
}

}  // namespace
}  // namespace kvsidecar
