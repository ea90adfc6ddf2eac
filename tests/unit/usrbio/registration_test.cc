// SPDX-License-Identifier: Apache-2.0
// Goal: memory is registered under one name that goes with its owner, and only memory that the fuse
// daemon can have. Method: a plain folder in the place of the mount.
#include "sidecar/store/usrbio/registration.h"

#include "tests/support/fakes.h"
#include "tests/unit/usrbio/plain_mount.h"

namespace kvsidecar::usrbio {
namespace {

using RegistrationTest = PlainMountTest;

TEST_F(RegistrationTest, TheNameIsTheIdAndTheTargetTheFile) {
  auto memory = register_shared_memory(open_mount(), shared_, 8192);
  ASSERT_TRUE(memory.ok()) << memory.status().text();
  EXPECT_EQ(keys(), (std::set<std::string>{id_text(memory->id)}));
  EXPECT_EQ(std::filesystem::read_symlink(registry() + "/" + id_text(memory->id)), shared_);
  memory->registration.reset();
  EXPECT_TRUE(keys().empty());
  EXPECT_TRUE(std::filesystem::exists(shared_));
}

TEST_F(RegistrationTest, OneFileIsRegisteredTwiceUnderTwoIds) {
  const auto mount = open_mount();
  auto first = register_shared_memory(mount, shared_, 8192);
  auto second = register_shared_memory(mount, shared_, 4096);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(keys().size(), 2u);
  first->registration.reset();
  EXPECT_EQ(keys(), (std::set<std::string>{id_text(second->id)}));
}

TEST_F(RegistrationTest, OnlyRegularFilesDirectlyUnderSharedMemoryAreTaken) {
  const auto mount = open_mount();
  const std::string link = shared_ + ".link";
  ASSERT_EQ(::symlink(shared_.c_str(), link.c_str()), 0);
  for (const std::string& path : {std::string("/dev/shm/"), std::string("/dev/shm"), point_ + "/x",
                                  std::string("/dev/shm/a/b"), link,
                                  std::string("/dev/shm/../shm/x"), std::string("relative")}) {
    const auto refused = register_shared_memory(mount, path, 1);
    EXPECT_EQ(refused.status().code(), Code::kInvalid) << path;
    EXPECT_NE(refused.status().text().find(path), std::string::npos);
  }
  ::unlink(link.c_str());
  EXPECT_FALSE(register_shared_memory(mount, shared_ + ".missing", 1).ok());
  EXPECT_TRUE(keys().empty());
}

TEST_F(RegistrationTest, OneToAllOfTheFilesBytesAreTaken) {
  const auto mount = open_mount();
  EXPECT_EQ(register_shared_memory(mount, shared_, 0).status().code(), Code::kInvalid);
  EXPECT_EQ(register_shared_memory(mount, shared_, 8193).status().code(), Code::kInvalid);
  EXPECT_TRUE(register_shared_memory(mount, shared_, 1).ok());
}

TEST_F(RegistrationTest, ARefusalSaysWhyAndWhatHelps) {
  testing::PlannedFaults faults;
  const auto mount = open_mount(faults);
  const std::pair<int, std::string> reasons[] = {
      {EMFILE, "iov_limit"},     {EACCES, "neither root nor this user"},
      {EINVAL, "same /dev/shm"}, {ENOTCONN, "has died"},
      {EROFS, "read-only"},      {EIO, "Input/output error"}};
  for (const auto& [error, words] : reasons) {
    faults.fail_next("usrbio.register", error);
    int said = 0;
    const auto refused = Registration::make(mount, memory_key(make_id()), shared_, &said);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(said, error);
    EXPECT_NE(refused.status().text().find(words), std::string::npos) << refused.status().text();
  }
  EXPECT_TRUE(keys().empty());
}

TEST_F(RegistrationTest, AMountWithoutTheFolderOfRegistrationsIsRefused) {
  std::filesystem::remove_all(point_ + "/3fs-virt");
  const auto mount = Mount::open(point_, no_faults());
  EXPECT_EQ(mount.status().code(), Code::kUnavailable);
  EXPECT_NE(mount.status().text().find("has no folder 3fs-virt/iovs"), std::string::npos);
}

TEST_F(RegistrationTest, AMountPointThatNoStructCanHoldIsRefused) {
  EXPECT_EQ(Mount::open("/" + std::string(255, 'a'), no_faults()).status().code(), Code::kInvalid);
}

// usrbio.md §9.7: closing one handle of the folder drops what the thread registered.
TEST_F(RegistrationTest, AThreadHasOneHandleOfTheFolderHoweverManyMountsItOpens) {
  auto first = open_mount();
  auto second = open_mount();
  const int handle = first->registry();
  EXPECT_EQ(handle, second->registry());
  EXPECT_EQ(::fcntl(handle, F_GETFD), FD_CLOEXEC);
  first.reset();
  EXPECT_GE(::fcntl(handle, F_GETFD), 0);
  EXPECT_TRUE(second->alive());
  second.reset();
  EXPECT_LT(::fcntl(handle, F_GETFD), 0);
}

TEST_F(RegistrationTest, AMountWhosePlaceIsGoneIsNotAlive) {
  const auto mount = open_mount();
  EXPECT_TRUE(mount->alive());
  std::filesystem::rename(point_, point_ + ".away");
  EXPECT_FALSE(mount->alive());
  std::filesystem::rename(point_ + ".away", point_);
  EXPECT_TRUE(mount->alive());
}

TEST_F(RegistrationTest, AFileIsKnownByInodeAndAccess) {
  const auto mount = open_mount();
  const std::string path = point_ + "/file";
  const UniqueFd both(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  const UniqueFd reader(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const UniqueFd writer(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  struct stat facts {};
  ASSERT_EQ(::fstat(both.get(), &facts), 0);
  EXPECT_EQ(mount->identify(both.get())->inode, facts.st_ino);
  EXPECT_TRUE(mount->identify(both.get())->readable && mount->identify(both.get())->writable);
  EXPECT_TRUE(mount->identify(reader.get())->readable);
  EXPECT_FALSE(mount->identify(reader.get())->writable);
  EXPECT_FALSE(mount->identify(writer.get())->readable);
}

TEST_F(RegistrationTest, FilesOfOtherFileSystemsAndFoldersAreRefused) {
  const auto mount = open_mount();
  const UniqueFd other(::open("/proc/self/status", O_RDONLY | O_CLOEXEC));
  const UniqueFd folder(::open(point_.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(mount->identify(other.get()).status().code(), Code::kInvalid);
  EXPECT_EQ(mount->identify(folder.get()).status().code(), Code::kInvalid);
  EXPECT_FALSE(mount->identify(-1).ok());
}

TEST_F(RegistrationTest, AFolderThatIsNotThreeFsDoesNotSpeakTheProtocol) {
  const UniqueFd folder(::open(point_.c_str(), O_RDONLY | O_CLOEXEC));
  const Status status = Mount::check_protocol(folder.get(), point_);
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_NE(status.text().find(point_), std::string::npos);
}

}  // namespace
}  // namespace kvsidecar::usrbio
