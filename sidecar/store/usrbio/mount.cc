// SPDX-License-Identifier: Apache-2.0
#include "sidecar/store/usrbio/mount.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <cstring>
#include <map>

#include "sidecar/store/usrbio/protocol.h"

namespace kvsidecar::usrbio {
namespace {

uint64_t device_of(const struct statx& facts) {
  return makedev(facts.stx_dev_major, facts.stx_dev_minor);
}

Status unreachable(const std::string& point, int error) {
  const std::string what = "3FS at " + point;
  if (error == ENOTCONN || error == ECONNABORTED)
    return {Code::kUnavailable,
            what + " doesn't answer (" + std::strerror(error) +
                "): its fuse daemon has died; unmount it (umount -l) and start hf3fs_fuse again"};
  if (error == ENOENT || error == ENOTDIR)
    return {Code::kUnavailable, what + " has no folder " + kRegistryFolder +
                                    ": mount its root there, or its folder 3fs-virt as " + point +
                                    "/3fs-virt"};
  if (error == EACCES || error == EPERM)
    return {Code::kDenied, "the folder " + point + "/" + kRegistryFolder +
                               " may not be opened by this user: let the fuse daemon mount with "
                               "allow_other, or run as the user that mounted"};
  return os_error("opening " + point + "/" + kRegistryFolder, error, Code::kUnavailable);
}

// The server drops what a thread registered when *any* handle of the folder which that thread
// opened is closed: so there is one for all clients of a thread, and it is closed last.
std::shared_ptr<UniqueFd> shared_handle(const std::pair<uint64_t, uint64_t>& folder) {
  thread_local std::map<std::pair<uint64_t, uint64_t>, std::weak_ptr<UniqueFd>> handles;
  std::erase_if(handles, [](const auto& known) { return known.second.expired(); });
  std::weak_ptr<UniqueFd>& known = handles[folder];
  auto handle = known.lock();
  if (!handle) known = handle = std::make_shared<UniqueFd>();
  return handle;
}

}  // namespace

Mount::Mount(std::string point, std::shared_ptr<UniqueFd> registry, uint64_t device, uint64_t inode,
             FaultPoints& faults)
    : point_(std::move(point)),
      registry_(std::move(registry)),
      device_(device),
      inode_(inode),
      faults_(faults) {}

Result<std::shared_ptr<Mount>> Mount::open(const std::string& mount_point, FaultPoints& faults) {
  if (mount_point.size() > kMountPointMax)
    return invalid("the mount point " + mount_point + " has " + std::to_string(mount_point.size()) +
                   " bytes, USRBIO takes at most " + std::to_string(kMountPointMax) +
                   ": mount 3FS at a shorter path");
  const std::string folder = mount_point + "/" + kRegistryFolder;
  struct statx facts {};
  if (::statx(AT_FDCWD, folder.c_str(), AT_STATX_FORCE_SYNC, STATX_INO | STATX_TYPE, &facts) != 0)
    return unreachable(mount_point, errno);
  auto registry = shared_handle({device_of(facts), facts.stx_ino});
  if (!*registry) {
    if (const int error = faults.fail("usrbio.mount.open")) return unreachable(mount_point, error);
    registry->reset(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!*registry) return unreachable(mount_point, errno);
  }
  return std::shared_ptr<Mount>(
      new Mount(mount_point, std::move(registry), device_of(facts), facts.stx_ino, faults));
}

bool Mount::alive() const {
  struct statx facts {};
  // FORCE_SYNC: cached attributes outlive the daemon.
  if (::statx(registry(), "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_TYPE, &facts) != 0)
    return false;
  const std::string folder = point_ + "/" + kRegistryFolder;
  return ::statx(AT_FDCWD, folder.c_str(), AT_STATX_DONT_SYNC, STATX_INO, &facts) == 0 &&
         device_of(facts) == device_ && facts.stx_ino == inode_;
}

Result<FileIdentity> Mount::identify(int fd) const {
  struct statx facts {};
  const int injected = faults_.fail("usrbio.file.identify");
  if (injected != 0 ||
      ::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO | STATX_TYPE, &facts) != 0)
    return os_error("looking at a file of 3FS at " + point_, injected ? injected : errno,
                    Code::kUnavailable);
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0) return os_error("looking at a file of 3FS at " + point_, errno);
  if (device_of(facts) != device_)
    return invalid("the file (descriptor " + std::to_string(fd) + ") isn't on the 3FS mounted at " +
                   point_ +
                   ": it lies on another file system, or was opened before 3FS was mounted anew");
  if (!S_ISREG(facts.stx_mode))
    return invalid("descriptor " + std::to_string(fd) + " is no regular file of 3FS");
  const int access = flags & O_ACCMODE;
  return FileIdentity{facts.stx_ino, access != O_WRONLY, access != O_RDONLY};
}

Status Mount::check_protocol(int folder, const std::string& mount_point) {
  uint32_t answer = 0;
  if (::ioctl(folder, kIoctlMagic, &answer) != 0 || answer != kMagic)
    return invalid("what is mounted at " + mount_point +
                   " doesn't answer as 3FS: mount 3FS (hf3fs_fuse) there, or use the file store");
  answer = 0;
  if (::ioctl(folder, kIoctlVersion, &answer) != 0)
    return os_error("asking 3FS at " + mount_point + " for its ioctl version", errno,
                    Code::kUnavailable);
  if (answer != kKnownIoctlVersion)
    return {Code::kUnsupportedVersion,
            "3FS at " + mount_point + " speaks ioctl version " + std::to_string(answer) +
                ", the builtin client knows version " + std::to_string(kKnownIoctlVersion) +
                ": use the site's libhf3fs_api_shared.so (store.usrbio.client = \"library\")"};
  return {};
}

}  // namespace kvsidecar::usrbio
