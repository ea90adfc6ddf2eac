// SPDX-License-Identifier: Apache-2.0
// Goal: shared memory is made, registered, named and given back as the interface says. Method: the
// calls, and what they leave in the mount's virtual folder, under /dev/shm and in the address
// space.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/usrbio/abi/bed.h"

namespace kvsidecar::abi {
namespace {

constexpr size_t kPage = 4096, kBytes = 256 << 10;

class Iovs : public Bed {
 protected:
  static std::string target(const Iov& iov) {
    char found[256] = {};
    EXPECT_GT(::readlink(iov.link().c_str(), found, sizeof found - 1), 0) << iov.link();
    return found;
  }
  static bool is_there(const std::string& path) {
    struct stat about {};
    return ::lstat(path.c_str(), &about) == 0;
  }
  static bool is_mapped(const void* address) {
    unsigned char resident = 0;
    return ::mincore(const_cast<void*>(address), kPage, &resident) == 0;
  }
};

TEST_F(Iovs, ACreatedOneIsFilledInMappedAndRegistered) {
  Iov iov;
  make(iov, kBytes);
  ASSERT_NE(iov.base, nullptr);
  EXPECT_NE(iov.iovh, nullptr);
  EXPECT_EQ(iov.size, kBytes);
  EXPECT_EQ(iov.block_size, 0u);
  EXPECT_STREQ(iov.mount_point, mount().c_str());
  EXPECT_EQ(target(iov).rfind("/dev/shm/", 0), 0u);
  if (traits_.shows_shm_names) {
    EXPECT_EQ(target(iov).rfind("/dev/shm/hf3fs-iov-", 0), 0u);
  }
  EXPECT_EQ(std::filesystem::file_size(target(iov)), kBytes);
  iov.base[kBytes - 1] = 1;
}

TEST_F(Iovs, TheBlockSizeIsPartOfItsKey) {
  Iov iov;
  make(iov, kBytes, kPage);
  EXPECT_EQ(iov.block_size, kPage);
  EXPECT_TRUE(is_there(iov.link()));
  EXPECT_NE(iov.link().find(".b4096"), std::string::npos);
}

TEST_F(Iovs, BadArgumentsAreRefused) {
  Iov iov;
  EXPECT_EQ(library_.iovcreate(nullptr, mount().c_str(), kBytes, 0, -1), -EINVAL);
  EXPECT_EQ(library_.iovcreate(&iov, std::string(256, 'a').c_str(), kBytes, 0, -1), -EINVAL);
  EXPECT_EQ(library_.iovcreate(&iov, ("/" + std::string(254, 'a')).c_str(), kBytes, 0, -1),
            -ENOENT);
  EXPECT_EQ(library_.iovcreate(&iov, folder_.c_str(), kBytes, 0, -1), -ENOENT);
}

TEST_F(Iovs, DestroyingTakesLinkFileAndMappingAway) {
  Iov iov;
  make(iov, kBytes);
  const std::string file = target(iov), link = iov.link();
  uint8_t* const base = iov.base;
  library_.iovdestroy(&iov);
  static_cast<hf3fs_iov&>(iov) = {};
  EXPECT_FALSE(is_there(link));
  EXPECT_FALSE(is_there(file));
  EXPECT_FALSE(is_mapped(base));
}

TEST_F(Iovs, UnlinkingTakesOnlyTheNameAway) {
  Iov iov;
  make(iov, kBytes);
  const std::string name = target(iov);
  library_.iovunlink(&iov);
  EXPECT_FALSE(is_there(name));
  EXPECT_TRUE(is_there(iov.link()));
  const std::vector<uint8_t> content = pattern(1000);
  const UniqueFd made = file("a", content);
  const Registered registered(made.get());
  EXPECT_EQ(one_read(iov, 0, made.get(), 0, 1000), 1000);
  EXPECT_EQ(std::memcmp(iov.base, content.data(), 1000), 0);
}

TEST_F(Iovs, OneThatCannotBeMappedIsAnInputOutputError) {
  constexpr size_t kTooMuch = size_t{1} << 62;
  Iov iov;
  EXPECT_EQ(library_.iovcreate(&iov, mount().c_str(), kTooMuch, 0, -1), -EIO);
  int left = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    std::error_code vanished;
    if (entry.file_size(vanished) == kTooMuch && !vanished) {
      ++left;
      std::filesystem::remove(entry.path(), vanished);
    }
  }
  EXPECT_EQ(left, traits_.leaves_shm_after_failed_map ? 1 : 0);
}

TEST_F(Iovs, AnotherOpensItByItsIdAndSeesTheSameBytes) {
  Iov owner, other;
  make(owner, kBytes);
  owner.base[5] = 42;
  ASSERT_EQ(library_.iovopen(&other, owner.id, mount().c_str(), kBytes, 0, -1), 0);
  EXPECT_NE(other.base, owner.base);
  EXPECT_EQ(other.base[5], 42);
  EXPECT_EQ(std::memcmp(other.id, owner.id, 16), 0);
  const UniqueFd made = file("a", pattern(100));
  const Registered registered(made.get());
  EXPECT_EQ(one_read(other, 0, made.get(), 0, 100), 100);
  EXPECT_EQ(std::memcmp(owner.base, pattern(100).data(), 100), 0);
}

TEST_F(Iovs, AnotherProcessOpensItByItsId) {
  Iov owner;
  make(owner, kBytes);
  const Ending ending = in_a_child([&] {
    hf3fs_iov other{};
    const int answer = library_.iovopen(&other, owner.id, mount().c_str(), kBytes, 0, -1);
    if (answer == 0) other.base[9] = 77;
    return answer;
  });
  EXPECT_EQ(ending.kind, Ending::Kind::kReturned);
  EXPECT_EQ(ending.value, 0);
  EXPECT_EQ(owner.base[9], 77);
}

TEST_F(Iovs, AnUnknownIdOrOneWithoutANameCannotBeOpened) {
  Iov owner, other;
  const uint8_t unknown[16] = {1, 2, 3};
  EXPECT_EQ(library_.iovopen(&other, unknown, mount().c_str(), kBytes, 0, -1), -ENOENT);
  EXPECT_EQ(library_.iovopen(nullptr, unknown, mount().c_str(), kBytes, 0, -1), -EINVAL);
  make(owner, kBytes);
  library_.iovunlink(&owner);
  EXPECT_EQ(library_.iovopen(&other, owner.id, mount().c_str(), kBytes, 0, -1), -ENOENT);
}

// Upstream takes the owner's link away with it.
TEST_F(Iovs, DestroyingAnOpenedOneMayEndItsOwnersRegistration) {
  const UniqueFd made = file("a", pattern(100));
  const Registered registered(made.get());
  Iov owner;
  make(owner, kBytes);
  {
    Iov other;
    ASSERT_EQ(library_.iovopen(&other, owner.id, mount().c_str(), kBytes, 0, -1), 0);
  }
  EXPECT_EQ(is_there(owner.link()), !traits_.opened_iov_unregisters);
  EXPECT_EQ(one_read(owner, 0, made.get(), 0, 100),
            traits_.opened_iov_unregisters ? int64_t{-EINVAL} : 100);
}

TEST_F(Iovs, WrappingOnlyFillsTheStruct) {
  std::vector<uint8_t> memory(kBytes);
  const uint8_t id[16] = {9, 8, 7};
  hf3fs_iov iov{};
  EXPECT_EQ(library_.iovwrap(&iov, memory.data(), id, mount().c_str(), kBytes, 0, -1), 0);
  EXPECT_EQ(iov.base, memory.data());
  EXPECT_EQ(std::memcmp(iov.id, id, 16), 0);
  EXPECT_EQ(iov.size, kBytes);
  EXPECT_STREQ(iov.mount_point, mount().c_str());
  EXPECT_EQ(library_.iovwrap(nullptr, memory.data(), id, mount().c_str(), kBytes, 0, -1), -EINVAL);
  EXPECT_EQ(library_.iovwrap(&iov, memory.data(), id, std::string(256, 'a').c_str(), kBytes, 0, -1),
            -EINVAL);
  library_.iovdestroy(&iov);
  memory[0] = 1;  // still ours
}

TEST_F(Iovs, AWrappedOneThatNobodyRegisteredIsUnknownToTheDaemon) {
  const UniqueFd made = file("a", pattern(100));
  const Registered registered(made.get());
  std::vector<uint8_t> memory(kBytes);
  const uint8_t id[16] = {9, 8, 7};
  hf3fs_iov iov{};
  ASSERT_EQ(library_.iovwrap(&iov, memory.data(), id, mount().c_str(), kBytes, 0, -1), 0);
  EXPECT_EQ(one_read(iov, 0, made.get(), 0, 100), -EINVAL);
}

TEST_F(Iovs, OnesOwnFileIsRegisteredByASymlinkAndThenWrapped) {
  const std::string name = "/dev/shm/kvsidecar.test-abi-own-" + std::to_string(::getpid());
  const UniqueFd shared(::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  ASSERT_GE(shared.get(), 0);
  ASSERT_EQ(::ftruncate(shared.get(), kBytes), 0);
  void* const base = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, shared.get(), 0);
  ASSERT_NE(base, MAP_FAILED);
  Iov id_from;
  uint8_t id[16];
  const std::vector<uint8_t> random = pattern(16, static_cast<uint64_t>(::getpid()));
  std::copy(random.begin(), random.end(), id);
  std::copy(random.begin(), random.end(), id_from.id);
  std::strcpy(id_from.mount_point, mount().c_str());
  EXPECT_EQ(::symlink(name.c_str(), id_from.link().c_str()), 0);
  hf3fs_iov iov{};
  EXPECT_EQ(library_.iovwrap(&iov, base, id, mount().c_str(), kBytes, 0, -1), 0);
  const std::vector<uint8_t> content = pattern(5000);
  const UniqueFd made = file("a", content);
  const Registered registered(made.get());
  EXPECT_EQ(one_read(iov, 100, made.get(), 0, 5000), 5000);
  EXPECT_EQ(std::memcmp(iov.base + 100, content.data(), 5000), 0);
  EXPECT_EQ(::unlink(id_from.link().c_str()), 0);
  EXPECT_EQ(one_read(iov, 100, made.get(), 0, 5000), -EINVAL);
  ::munmap(base, kBytes);
  ::unlink(name.c_str());
}

}  // namespace
}  // namespace kvsidecar::abi
