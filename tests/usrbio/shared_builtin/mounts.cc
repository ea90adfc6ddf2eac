// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/shared_builtin/mounts.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include "sidecar/store/usrbio/protocol.h"

namespace kvsidecar::shared_builtin {
namespace {

using Mounts = std::map<std::string, std::shared_ptr<usrbio::Mount>>;

// Never destroyed: other threads may be here when the process ends.
std::mutex& mounts_mutex = *new std::mutex;
Mounts& mounts = *new Mounts;

}  // namespace

bool is_possible(const char* mount_point) {
  return mount_point != nullptr && mount_point[0] != '\0' &&
         std::strlen(mount_point) <= usrbio::kMountPointMax;
}

int mount_at(const char* mount_point, std::shared_ptr<usrbio::Mount>& mount) {
  const std::lock_guard lock(mounts_mutex);
  const std::string point = mount_point;
  const auto known = mounts.find(point);
  if (known != mounts.end() && known->second->alive()) {
    mount = known->second;
    return 0;
  }
  struct statx facts {};
  const std::string registry = point + "/" + usrbio::kRegistryFolder;
  if (::statx(AT_FDCWD, registry.c_str(), AT_STATX_FORCE_SYNC, STATX_TYPE, &facts) != 0)
    return -errno;
  const UniqueFd root(::open(mount_point, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root) return -errno;
  if (!usrbio::Mount::check_protocol(root.get(), point).ok()) return -ENOENT;
  auto opened = usrbio::Mount::open(point, no_faults());
  if (!opened) return -EIO;
  mount = opened.take();
  mounts[point] = mount;
  return 0;
}

int without_exceptions(const std::function<int()>& call) noexcept {
  try {
    return call();
  } catch (...) {
    return -ENOMEM;
  }
}

}  // namespace kvsidecar::shared_builtin
