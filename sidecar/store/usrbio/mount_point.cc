// SPDX-License-Identifier: Apache-2.0
// Which 3FS holds a path: mount_point_of() of client.h.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>

#include "sidecar/store/usrbio/client.h"
#include "sidecar/store/usrbio/mount.h"
#include "sidecar/store/usrbio/mount_table.h"
#include "sidecar/store/usrbio/protocol.h"

namespace kvsidecar::usrbio {
namespace {

Status dead(const std::string& path, int error) {
  return {Code::kUnavailable, "the file system that holds " + path + " doesn't answer (" +
                                  std::strerror(error) +
                                  "): its fuse daemon has died; unmount it (umount -l) and start "
                                  "hf3fs_fuse again"};
}

std::string parent_of(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string without_slashes_at_end(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

Result<std::string> mount_table_text() {
  const UniqueFd file(::open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC));
  if (!file) return os_error("opening /proc/self/mountinfo", errno);
  std::string text;
  char piece[16384];
  for (ssize_t got = 0; (got = ::read(file.get(), piece, sizeof piece)) != 0;) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return os_error("reading /proc/self/mountinfo", errno);
    text.append(piece, static_cast<size_t>(got));
  }
  return text;
}

}  // namespace

Result<std::string> existing_folder(const std::string& path) {
  if (path.empty()) return invalid("the path of the store is empty: name a folder");
  std::string at = without_slashes_at_end(path);
  char resolved[PATH_MAX];
  while (::realpath(at.c_str(), resolved) == nullptr) {
    if (errno == ENOTCONN || errno == ECONNABORTED) return dead(path, errno);
    if ((errno != ENOENT && errno != ENOTDIR) || at == "/" || at == ".")
      return os_error("looking at " + path, errno, Code::kUnavailable);
    at = without_slashes_at_end(parent_of(at));
  }
  struct stat facts {};
  if (::stat(resolved, &facts) != 0)
    return errno == ENOTCONN ? dead(path, errno)
                             : os_error("looking at " + path, errno, Code::kUnavailable);
  return S_ISDIR(facts.st_mode) ? std::string(resolved) : parent_of(resolved);
}

Result<std::string> mount_point_of(const std::string& path) {
  const auto folder = existing_folder(path);
  if (!folder) return folder.status();
  const auto text = mount_table_text();
  if (!text) return text.status();
  const auto table = parse_mount_table(*text);
  const MountEntry* entry = mount_that_holds(table, *folder);
  if (entry == nullptr || entry->type != kFileSystemType) return std::string();
  int error = 0;
  for (const std::string& point : ways_to_virtual_folder(table, *entry, *folder)) {
    const std::string registry = (point == "/" ? "" : point) + "/" + kRegistryFolder;
    struct statx facts {};
    // FORCE_SYNC: cached attributes outlive the daemon.
    if (::statx(AT_FDCWD, registry.c_str(), AT_STATX_FORCE_SYNC, STATX_TYPE, &facts) == 0)
      return point;
    if (error == 0 || error == ENOENT) error = errno;
  }
  if (error == ENOTCONN || error == ECONNABORTED) return dead(path, error);
  return Status(Code::kUnavailable,
                path + " lies on 3FS, but no mount of it here shows the folder " + kRegistryFolder +
                    (error ? std::string(" (") + std::strerror(error) + ")" : "") +
                    ": mount the root of that 3FS too");
}

}  // namespace kvsidecar::usrbio
