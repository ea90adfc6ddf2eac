// SPDX-License-Identifier: Apache-2.0
// What lies on 3FS, and the files that rings may address.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include "sidecar/store/usrbio/client.h"
#include "sidecar/store/usrbio/protocol.h"
#include "tests/usrbio/shared_builtin/c_functions.h"
#include "tests/usrbio/shared_builtin/mounts.h"

namespace kvsidecar::shared_builtin {
namespace {

struct File {
  usrbio::FileIdentity identity;
  uint64_t device_major, device_minor;
  int flags;
  bool operator==(const File& other) const {
    return identity.inode == other.identity.inode && device_major == other.device_major &&
           device_minor == other.device_minor && flags == other.flags;
  }
};

std::mutex& files_mutex = *new std::mutex;
std::map<int, File>& files = *new std::map<int, File>;

int look_at(int fd, File& file) {
  struct statx facts {};
  if (::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &facts) != 0) return errno;
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0) return errno;
  const int access = flags & O_ACCMODE;
  file = {{facts.stx_ino, access != O_WRONLY, access != O_RDONLY},
          facts.stx_dev_major,
          facts.stx_dev_minor,
          flags};
  return 0;
}

int register_file(int fd) {
  if (!hf3fs_is_hf3fs(fd)) return EBADF;
  File file{};
  if (const int error = look_at(fd, file)) return error;
  const std::lock_guard lock(files_mutex);
  const auto [place, is_new] = files.try_emplace(fd, file);
  // Another file has the number now: the one before was closed without a word, and is forgotten.
  if (!is_new && place->second == file) return EINVAL;
  place->second = file;
  return -fd;
}

int punch(int fd, int ranges, const size_t* begins, const size_t* ends, size_t flags) {
  using Arguments = usrbio::PunchHoleArguments;
  if (ranges < 1 || ranges > Arguments::kRangesMax || !begins || !ends) return EINVAL;
  const auto arguments = std::make_unique<Arguments>();
  arguments->ranges = ranges;
  arguments->flags = flags;
  std::copy_n(begins, ranges, arguments->begins);
  std::copy_n(ends, ranges, arguments->ends);
  return ::ioctl(fd, usrbio::kIoctlPunchHole, arguments.get()) == 0 ? 0 : errno;
}

int extract(char* into, int into_bytes, const char* path) {
  struct stat facts {};
  if (path == nullptr || ::stat(path, &facts) != 0) return -1;
  const auto point = usrbio::mount_point_of(path);
  if (!point || point->empty()) return -1;
  const int bytes = static_cast<int>(point->size()) + 1;
  if (into != nullptr && into_bytes >= bytes)
    std::memcpy(into, point->c_str(), static_cast<size_t>(bytes));
  return bytes;
}

}  // namespace

std::optional<usrbio::FileIdentity> registered(int fd) {
  const std::lock_guard lock(files_mutex);
  const auto known = files.find(fd);
  if (known == files.end()) return std::nullopt;
  return known->second.identity;
}

}  // namespace kvsidecar::shared_builtin

using namespace kvsidecar;  // NOLINT: the functions below have no namespace of their own

bool hf3fs_is_hf3fs(int fd) {
  uint32_t answer = 0;
  return ::ioctl(fd, usrbio::kIoctlMagic, &answer) == 0 && answer == usrbio::kMagic;
}

int hf3fs_extract_mount_point(char* into, int into_bytes, const char* path) {
  const int bytes = shared_builtin::without_exceptions(
      [&] { return shared_builtin::extract(into, into_bytes, path); });
  return bytes < 0 ? -1 : bytes;
}

int hf3fs_reg_fd(int fd, uint64_t) {
  const int answer =
      shared_builtin::without_exceptions([&] { return shared_builtin::register_file(fd); });
  return answer == -ENOMEM && fd != ENOMEM ? ENOMEM : answer;
}

void hf3fs_dereg_fd(int fd) {
  const std::lock_guard lock(shared_builtin::files_mutex);
  shared_builtin::files.erase(fd);
}

int hf3fs_hardlink(const char* target, const char* link_name) {
  if (target == nullptr || link_name == nullptr) return EINVAL;
  return ::link(target, link_name) == 0 ? 0 : errno;
}

int hf3fs_punchhole(int fd, int ranges, const size_t* begins, const size_t* ends, size_t flags) {
  const int answer = shared_builtin::without_exceptions(
      [&] { return shared_builtin::punch(fd, ranges, begins, ends, flags); });
  return answer < 0 ? -answer : answer;
}
