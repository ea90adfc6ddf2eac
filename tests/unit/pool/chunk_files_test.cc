// SPDX-License-Identifier: Apache-2.0
// Goal: chunks are made whole or not at all, adopted only when they are ours and unchanged, and
// never follow anybody's link. Method: a directory of its own under /dev/shm, small chunks, faults
// by name.
#include "sidecar/pool/chunk_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>

namespace kvsidecar {
namespace {

constexpr uint64_t kChunk = 1 << 20;
namespace fs = std::filesystem;

// Fails at a named place the n-th time it is passed.
class Faults final : public FaultPoints {
 public:
  int fail(std::string_view point) override {
    passed.push_back(std::string(point));
    const auto found = errors.find(std::string(point));
    if (found == errors.end()) return 0;
    const int error = found->second;
    if (once) errors.erase(found);
    return error;
  }
  std::map<std::string, int> errors;
  bool once = false;
  std::vector<std::string> passed;
};

class ChunkFiles : public testing::Test {
 protected:
  ChunkFiles() {
    char name[] = "/dev/shm/kvsidecar-test-XXXXXX";
    plan_ = {.directory = mkdtemp(name),
             .pool = "unit",
             .chunk_bytes = kChunk,
             .pool_bytes = 2 * kChunk};
  }
  ~ChunkFiles() override { fs::remove_all(plan_.directory); }

  std::string path(const std::string& name) const { return plan_.directory + "/" + name; }
  std::string chunk(uint32_t n) const { return path("kvsidecar.unit." + std::to_string(n)); }
  void write_file(const std::string& at, uint64_t bytes, mode_t mode = 0600) {
    const UniqueFd fd(open(at.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    ASSERT_TRUE(fd);
    ASSERT_EQ(fchmod(fd.get(), mode), 0);
    ASSERT_EQ(posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes)), 0);
    ASSERT_EQ(pwrite(fd.get(), "old", 3, 0), 3);
  }
  uint64_t files() const {
    return static_cast<uint64_t>(std::distance(fs::directory_iterator(plan_.directory), {}));
  }
  Result<Chunk> open_and_close(uint32_t n) {
    auto opened = open_chunk(plan_, n, faults_);
    if (opened) close_chunk(*opened);
    return opened;
  }

  ChunkPlan plan_;
  Faults faults_;
};

TEST_F(ChunkFiles, ANewChunkIsReservedZeroPrivateAndMapped) {
  auto made = open_chunk(plan_, 0, faults_);
  ASSERT_TRUE(made.ok()) << made.status().text();
  EXPECT_FALSE(made->existed);
  EXPECT_EQ(made->path, chunk(0));
  ASSERT_EQ(made->memory.size(), kChunk);
  EXPECT_EQ(made->memory[kChunk - 1], std::byte{0});
  struct stat facts;
  ASSERT_EQ(stat(chunk(0).c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0600u);
  EXPECT_EQ(static_cast<uint64_t>(facts.st_blocks) * 512, kChunk) << "every block is there";
  std::vector<unsigned char> resident(kChunk / 4096);
  ASSERT_EQ(mincore(made->memory.data(), kChunk, resident.data()), 0);
  for (const unsigned char page : resident) ASSERT_TRUE(page & 1) << "prefaulted";
  close_chunk(*made);
}

TEST_F(ChunkFiles, AnExistingChunkIsAdoptedWithItsBytes) {
  auto made = open_chunk(plan_, 1, faults_);
  ASSERT_TRUE(made.ok());
  made->memory[12345] = std::byte{77};
  close_chunk(*made);
  EXPECT_TRUE(made->memory.empty());
  auto found = open_chunk(plan_, 1, faults_);
  ASSERT_TRUE(found.ok());
  EXPECT_TRUE(found->existed);
  EXPECT_EQ(found->memory[12345], std::byte{77});
  close_chunk(*found);
}

TEST_F(ChunkFiles, AFileOfAnotherSizeModeOrWithASecondNameIsMadeAnew) {
  write_file(chunk(0), kChunk / 2);
  write_file(chunk(1), kChunk, 0644);
  write_file(chunk(2), kChunk);
  fs::create_hard_link(chunk(2), path("elsewhere"));
  for (uint32_t n = 0; n < 3; ++n) {
    auto made = open_chunk(plan_, n, faults_);
    ASSERT_TRUE(made.ok()) << made.status().text();
    EXPECT_FALSE(made->existed) << n;
    EXPECT_EQ(made->memory[0], std::byte{0}) << "none of the old bytes";
    close_chunk(*made);
  }
}

TEST_F(ChunkFiles, ALinkADirectoryOrAPipeIsRefusedByName) {
  write_file(path("victim"), kChunk);
  fs::create_symlink(path("victim"), chunk(0));
  fs::create_directory(chunk(1));
  ASSERT_EQ(mkfifo(chunk(2).c_str(), 0600), 0);
  for (uint32_t n = 0; n < 3; ++n) {
    const auto refused = open_and_close(n);
    ASSERT_FALSE(refused.ok()) << n;
    EXPECT_EQ(refused.status().code(), Code::kInvalid);
    EXPECT_NE(refused.status().text().find(chunk(n)), std::string::npos);
    EXPECT_NE(refused.status().text().find("host_pool.name"), std::string::npos) << "the remedy";
    EXPECT_TRUE(fs::exists(fs::symlink_status(chunk(n)))) << "left alone";
  }
}

TEST_F(ChunkFiles, AFileOfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  write_file(chunk(0), kChunk);
  ASSERT_EQ(chown(chunk(0).c_str(), 12345, 12345), 0);
  const auto refused = open_and_close(0);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().text().find("12345"), std::string::npos);
  EXPECT_FALSE(remove_pool(plan_).ok());
  EXPECT_TRUE(fs::exists(chunk(0)));
}

TEST_F(ChunkFiles, AFailureAtAnyStepLeavesNoFile) {
  for (const char* point : {"chunk.create", "chunk.reserve", "chunk.map", "chunk.populate"}) {
    faults_.errors = {{point, ENOSPC}};
    const auto failed = open_and_close(0);
    ASSERT_FALSE(failed.ok()) << point;
    EXPECT_NE(failed.status().text().find(chunk(0)), std::string::npos) << failed.status().text();
    EXPECT_EQ(files(), 0u) << point;
  }
  faults_.errors.clear();
  EXPECT_TRUE(open_and_close(0).ok());
}

TEST_F(ChunkFiles, AnInterruptedReservationGoesOn) {
  faults_.once = true;
  faults_.errors = {{"chunk.reserve", EINTR}, {"chunk.populate", EAGAIN}};
  EXPECT_TRUE(open_and_close(0).ok());
  EXPECT_EQ(std::count(faults_.passed.begin(), faults_.passed.end(), "chunk.reserve"), 2);
  EXPECT_EQ(std::count(faults_.passed.begin(), faults_.passed.end(), "chunk.populate"), 2);
}

TEST_F(ChunkFiles, AnOldKernelPrefaultsAtFirstUse) {
  faults_.errors = {{"chunk.populate", EINVAL}};
  EXPECT_TRUE(open_and_close(0).ok());
}

TEST_F(ChunkFiles, AHoleInAnAdoptedChunkIsFilledBeforeItCanKill) {
  ASSERT_TRUE(open_and_close(0).ok());
  const UniqueFd fd(open(chunk(0).c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(fallocate(fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kChunk / 2), 0);
  ASSERT_TRUE(open_and_close(0).ok());
  struct stat facts;
  ASSERT_EQ(fstat(fd.get(), &facts), 0);
  EXPECT_EQ(static_cast<uint64_t>(facts.st_blocks) * 512, kChunk);
}

TEST_F(ChunkFiles, APlanThatDoesntFitIsRefusedWithTheNumbers) {
  plan_.pool_bytes = 1ull << 50;
  const Status refused = check_plan(plan_);
  EXPECT_EQ(refused.code(), Code::kInvalid);
  EXPECT_NE(refused.text().find("1073741824 MiB"), std::string::npos) << refused.text();
  EXPECT_NE(refused.text().find(plan_.directory), std::string::npos);
  EXPECT_NE(refused.text().find("lower host_pool.bytes"), std::string::npos);
  plan_.pool_bytes = 2 * kChunk;
  EXPECT_TRUE(check_plan(plan_).ok());
}

TEST_F(ChunkFiles, APlanWithABadNameSizeOrDirectoryIsRefusedByField) {
  for (const char* name : {"", "Upper", "a/b", "..", "a.b", "123456789012345678901234567890123"}) {
    ChunkPlan plan = plan_;
    plan.pool = name;
    EXPECT_NE(check_plan(plan).text().find("host_pool.name"), std::string::npos) << name;
  }
  for (const uint64_t bytes : {uint64_t{0}, kChunk + 4096}) {
    ChunkPlan plan = plan_;
    plan.pool_bytes = bytes;
    EXPECT_NE(check_plan(plan).text().find("host_pool.bytes"), std::string::npos);
  }
  ChunkPlan plan = plan_;
  plan.chunk_bytes = 1000;
  EXPECT_NE(check_plan(plan).text().find("host_pool.chunk_bytes"), std::string::npos);
  plan = plan_;
  plan.directory = path("absent");
  EXPECT_NE(check_plan(plan).text().find("host_pool.directory"), std::string::npos);
}

TEST_F(ChunkFiles, ChunksThatExistCountAsFree) {
  plan_.chunk_bytes = 64 * kChunk;
  const auto before = free_bytes(plan_);
  ASSERT_TRUE(before.ok());
  ASSERT_TRUE(open_and_close(0).ok());
  const auto after = free_bytes(plan_);
  ASSERT_TRUE(after.ok());
  ChunkPlan other = plan_;
  other.pool = "other";
  EXPECT_LE(free_bytes(other).take() + 48 * kChunk, *after) << "but not another pool's";
}

TEST_F(ChunkFiles, LeftoversBeyondThePlanAreRemovedAndNothingElse) {
  for (const char* name : {"kvsidecar.unit.0", "kvsidecar.unit.1", "kvsidecar.unit.2",
                           "kvsidecar.unit.07", "kvsidecar.unit.99999999999", "kvsidecar.unit.x",
                           "kvsidecar.unit.", "kvsidecar.unit2.5", "kvsidecar.other.2"})
    write_file(path(name), 4096);
  EXPECT_TRUE(remove_leftovers(plan_).ok());
  for (const char* stays : {"kvsidecar.unit.0", "kvsidecar.unit.1", "kvsidecar.unit.x",
                            "kvsidecar.unit.", "kvsidecar.unit2.5", "kvsidecar.other.2"})
    EXPECT_TRUE(fs::exists(path(stays))) << stays;
  EXPECT_EQ(files(), 6u);
  EXPECT_TRUE(remove_pool(plan_).ok());
  EXPECT_FALSE(fs::exists(path("kvsidecar.unit.0")));
  EXPECT_EQ(files(), 4u);
}

TEST_F(ChunkFiles, WhatAnotherDaemonHasStaysWhateverThePlanSays) {
  for (const char* name : {"kvsidecar.unit.0", "kvsidecar.unit.7"}) write_file(path(name), 4096);
  EXPECT_TRUE(check_unclaimed(plan_).ok());
  UniqueFd beyond, smaller;  // by the plan: one chunk too many, one of another size
  ASSERT_TRUE(lock_chunk(path("kvsidecar.unit.7"), beyond).ok());
  ASSERT_TRUE(lock_chunk(path("kvsidecar.unit.0"), smaller).ok());
  for (const Status& refused : {check_unclaimed(plan_), remove_leftovers(plan_),
                                open_chunk(plan_, 0, no_faults()).status()}) {
    EXPECT_EQ(refused.code(), Code::kBusy) << refused.text();
    EXPECT_NE(refused.text().find("host_pool.name"), std::string::npos) << refused.text();
  }
  EXPECT_EQ(files(), 2u);
  beyond.reset();
  smaller.reset();  // it has ended
  EXPECT_TRUE(remove_leftovers(plan_).ok());
  auto made = open_chunk(plan_, 0, no_faults());
  ASSERT_TRUE(made.ok()) << made.status().text();
  EXPECT_FALSE(made->existed);
  close_chunk(*made);
  EXPECT_EQ(files(), 1u);
}

}  // namespace
}  // namespace kvsidecar
