// SPDX-License-Identifier: Apache-2.0
// Operations on folders, and statfs. Closing 3fs-virt/iovs is how the daemon learns that a client
// died: it takes back what the same thread had made.
#include <dirent.h>
#include <fcntl.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>

#include "tests/usrbio/mini3fs/file_system.h"

namespace kvsidecar::fake3fs {
namespace {

OpenFolder* folder_of(const fuse_file_info* info) {
  return reinterpret_cast<OpenFolder*>(info->fh);
}

int list(const Node& node, std::vector<std::pair<std::string, struct stat>>& entries) {
  const int fd = ::openat(node.path.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return -errno;
  DIR* folder = ::fdopendir(fd);
  if (folder == nullptr) return -errno;
  while (const dirent* found = ::readdir(folder)) {
    struct stat facts {};
    facts.st_ino = found->d_ino;
    facts.st_mode = static_cast<mode_t>(DTTOIF(found->d_type));
    entries.emplace_back(found->d_name, facts);
  }
  ::closedir(folder);
  return 0;
}

void opendir(fuse_req_t req, fuse_ino_t inode, fuse_file_info* info) {
  if (answered_by_fault(req, "opendir")) return;
  FileSystem& fs = file_system_of(req);
  auto open = std::make_unique<OpenFolder>();
  const fuse_ctx* caller = fuse_req_ctx(req);
  open->opener = caller->pid;
  if (is_virtual(inode)) {
    open->entries = virtual_entries(fs, inode, caller->uid);
  } else {
    const NodePtr node = node_or_answer(req, inode);
    if (node == nullptr) return;
    if (const int error = list(*node, open->entries); error != 0) return answer(req, error);
  }
  info->fh = reinterpret_cast<uint64_t>(open.get());
  if (fuse_reply_open(req, info) == 0) (void)open.release();
}

void readdir(fuse_req_t req, fuse_ino_t, size_t bytes, off_t offset, fuse_file_info* info) {
  const auto& entries = folder_of(info)->entries;
  std::string buffer(bytes, '\0');
  size_t used = 0;
  for (auto at = static_cast<size_t>(offset); at < entries.size(); ++at) {
    const auto& [name, facts] = entries[at];
    const size_t needed = fuse_add_direntry(req, buffer.data() + used, bytes - used, name.c_str(),
                                            &facts, static_cast<off_t>(at + 1));
    if (needed > bytes - used) break;
    used += needed;
  }
  fuse_reply_buf(req, buffer.data(), used);
}

void releasedir(fuse_req_t req, fuse_ino_t inode, fuse_file_info* info) {
  const std::unique_ptr<OpenFolder> folder(folder_of(info));
  FileSystem& fs = file_system_of(req);
  if (inode == kIovsInode) {
    const size_t reclaimed = fs.registrations->reclaim(folder->opener);
    fs.counts->add("reclaimed", static_cast<int64_t>(reclaimed));
    fs.counts->add("iovs_closed");
  }
  answer(req, 0);
}

void fsyncdir(fuse_req_t req, fuse_ino_t, int, fuse_file_info*) { answer(req, 0); }

void statfs(fuse_req_t req, fuse_ino_t) {
  if (answered_by_fault(req, "statfs")) return;
  FileSystem& fs = file_system_of(req);
  struct statvfs facts {};
  const NodePtr root = fs.nodes->get(kRootInode);
  if (::statvfs(path_of_fd(root->path.get()).c_str(), &facts) != 0) return answer(req, -errno);
  const Space& space = fs.faults->space();
  if (space.bytes_max() != UINT64_MAX) {
    facts.f_blocks = space.bytes_max() / facts.f_frsize;
    const uint64_t left = space.bytes_max() - std::min(space.bytes_max(), space.used());
    facts.f_bfree = facts.f_bavail = left / facts.f_frsize;
  }
  fuse_reply_statfs(req, &facts);
}

}  // namespace

void set_folder_operations(fuse_lowlevel_ops& operations) {
  operations.opendir = opendir;
  operations.readdir = readdir;
  operations.releasedir = releasedir;
  operations.fsyncdir = fsyncdir;
  operations.statfs = statfs;
}

}  // namespace kvsidecar::fake3fs
