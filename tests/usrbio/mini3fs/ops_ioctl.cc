// SPDX-License-Identifier: Apache-2.0
// The ioctls by which clients recognise the file system and ask it for what system calls can't.
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <unistd.h>

#include "tests/usrbio/mini3fs/file_system.h"

namespace kvsidecar::fake3fs {
namespace {

enum Command : unsigned {
  kGetMountName = 0x80206800,
  kGetPathOffset = 0x80046801,
  kGetMagicNumber = 0x80046802,
  kGetVersion = 0x80046803,
  kRecursiveRemove = 0x8004680a,
  kSync = 0x8004680b,
  kHardLink = 0x4108680c,
  kPunchHole = 0x7e90680d,
};
constexpr uint32_t kMagic = 0x8f3f5fff;
constexpr size_t kMountNameBytes = 32;
constexpr size_t kRangesMax = 1000;

struct HardLinkArgs {
  uint64_t inode;
  char name[255];
};
static_assert(sizeof(HardLinkArgs) == 0x108);

struct PunchHoleArgs {
  int32_t count;
  uint64_t flags;
  uint64_t begin[kRangesMax];
  uint64_t end[kRangesMax];
};
static_assert(sizeof(PunchHoleArgs) == 0x3e90);

void answer_bytes(fuse_req_t req, const void* data, size_t bytes, size_t room) {
  fuse_reply_ioctl(req, 0, data, std::min(bytes, room));
}

void answer_number(fuse_req_t req, uint32_t number, size_t room) {
  answer_bytes(req, &number, sizeof(number), room);
}

void hard_link(fuse_req_t req, fuse_ino_t inode, const void* data, size_t bytes) {
  FileSystem& fs = file_system_of(req);
  HardLinkArgs args{};
  if (bytes < sizeof(args)) return answer(req, -EINVAL);
  std::memcpy(&args, data, sizeof(args));
  args.name[sizeof(args.name) - 1] = '\0';
  const NodePtr folder = fs.nodes->get(inode), target = fs.nodes->get(args.inode);
  if (folder == nullptr || target == nullptr) return answer(req, -ENOENT);
  if (std::strchr(args.name, '/') != nullptr) return answer(req, -EINVAL);
  const int result = ::linkat(AT_FDCWD, path_of_fd(target->path.get()).c_str(), folder->path.get(),
                              args.name, AT_SYMLINK_FOLLOW);
  if (result != 0) return answer(req, -errno);
  fuse_reply_ioctl(req, 0, nullptr, 0);
}

void punch_hole(fuse_req_t req, fuse_ino_t inode, const void* data, size_t bytes) {
  if (bytes < sizeof(PunchHoleArgs)) return answer(req, -EINVAL);
  auto args = std::make_unique<PunchHoleArgs>();
  std::memcpy(args.get(), data, sizeof(PunchHoleArgs));
  if (args->count < 0 || args->count > static_cast<int32_t>(kRangesMax))
    return answer(req, -EINVAL);
  const auto file = file_system_of(req).nodes->find(inode);
  if (file == nullptr) return answer(req, -EBADF);
  for (int32_t i = 0; i < args->count; ++i)
    if (const int error = file->punch(args->begin[i], args->end[i]); error != 0)
      return answer(req, error);
  fuse_reply_ioctl(req, 0, nullptr, 0);
}

void sync_length(fuse_req_t req, fuse_ino_t inode, size_t room) {
  const auto file = file_system_of(req).nodes->find(inode);
  if (file == nullptr) return answer(req, -EBADF);
  file->settle();
  answer_number(req, 0, room);
}

// Everything below the folder that was asked, which stays.
void recursive_remove(fuse_req_t req, fuse_ino_t inode, size_t room) {
  const NodePtr folder = file_system_of(req).nodes->get(inode);
  if (folder == nullptr || !S_ISDIR(folder->type)) return answer(req, -ENOTDIR);
  std::error_code error;
  const std::filesystem::path path(path_of_fd(folder->path.get()) + "/.");
  for (const auto& entry : std::filesystem::directory_iterator(path, error))
    std::filesystem::remove_all(entry.path(), error);
  if (error) return answer(req, -error.value());
  answer_number(req, 0, room);
}

void ioctl(fuse_req_t req, fuse_ino_t inode, unsigned command, void*, fuse_file_info*, unsigned,
           const void* data, size_t bytes, size_t room) {
  if (answered_by_fault(req, "ioctl")) return;
  FileSystem& fs = file_system_of(req);
  switch (command) {
    case kGetMountName: {
      char name[kMountNameBytes] = {};
      fs.name.copy(name, sizeof(name) - 1);
      return answer_bytes(req, name, sizeof(name), room);
    }
    case kGetPathOffset:
      return answer_number(req, 0, room);
    case kGetMagicNumber:
      return answer_number(req, kMagic, room);
    case kGetVersion:
      return answer_number(req, static_cast<uint32_t>(fs.faults->number("ioctl.version", 1)), room);
    case kRecursiveRemove:
      return recursive_remove(req, inode, room);
    case kSync:
      return sync_length(req, inode, room);
    case kHardLink:
      return hard_link(req, inode, data, bytes);
    case kPunchHole:
      return punch_hole(req, inode, data, bytes);
    default:
      return answer(req, -ENOTTY);
  }
}

}  // namespace

void set_ioctl_operation(fuse_lowlevel_ops& operations) { operations.ioctl = ioctl; }

}  // namespace kvsidecar::fake3fs
