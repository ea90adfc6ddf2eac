// SPDX-License-Identifier: Apache-2.0
// Operations on names: lookup, mkdir, unlink, rmdir, symlink, readlink, rename, link, forget.
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>

#include "tests/usrbio/mini3fs/file_system.h"

namespace kvsidecar::fake3fs {
namespace {

void lookup(fuse_req_t req, fuse_ino_t parent, const char* name) {
  if (answered_by_fault(req, "lookup")) return;
  FileSystem& fs = file_system_of(req);
  if (is_virtual(parent) || (parent == kRootInode && std::strcmp(name, "3fs-virt") == 0))
    return virtual_lookup(req, parent, name);
  const NodePtr folder = node_or_answer(req, parent);
  if (folder == nullptr) return;
  NodePtr node;
  const int error = fs.nodes->look_up(*folder, name, node);
  fuse_entry_param entry{};
  if (error == -ENOENT && fs.timeouts.negative > 0) {
    entry.entry_timeout = fs.timeouts.negative;
    fuse_reply_entry(req, &entry);
    return;
  }
  if (error != 0) return answer(req, error);
  if (!entry_of(fs, node, entry)) {
    fs.nodes->forget(node->inode, 1);
    return answer(req, -ENOENT);
  }
  fuse_reply_entry(req, &entry);
}

void forget(fuse_req_t req, fuse_ino_t inode, uint64_t lookups) {
  file_system_of(req).nodes->forget(inode, lookups);
  fuse_reply_none(req);
}

void forget_multi(fuse_req_t req, size_t count, fuse_forget_data* forgets) {
  for (size_t i = 0; i < count; ++i)
    file_system_of(req).nodes->forget(forgets[i].ino, forgets[i].nlookup);
  fuse_reply_none(req);
}

void own(int folder, const char* name, const fuse_ctx* caller) {
  // Only root may give files away; a server of another user serves that user alone.
  if (::fchownat(folder, name, caller->uid, caller->gid, AT_SYMLINK_NOFOLLOW) != 0) return;
}

void mkdir(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode) {
  if (answered_by_fault(req, "mkdir")) return;
  const NodePtr folder = node_or_answer(req, parent);
  if (folder == nullptr) return;
  if (::mkdirat(folder->path.get(), name, mode) != 0) return answer(req, -errno);
  own(folder->path.get(), name, fuse_req_ctx(req));
  answer_entry(req, *folder, name, fault_after(req, "mkdir"));
}

void symlink(fuse_req_t req, const char* target, fuse_ino_t parent, const char* name) {
  if (answered_by_fault(req, "symlink")) return;
  if (is_virtual(parent)) return virtual_symlink(req, target, parent, name);
  const NodePtr folder = node_or_answer(req, parent);
  if (folder == nullptr) return;
  if (::symlinkat(target, folder->path.get(), name) != 0) return answer(req, -errno);
  own(folder->path.get(), name, fuse_req_ctx(req));
  answer_entry(req, *folder, name, fault_after(req, "symlink"));
}

void readlink(fuse_req_t req, fuse_ino_t inode) {
  if (answered_by_fault(req, "readlink")) return;
  if (is_virtual(inode)) return virtual_readlink(req, inode);
  const NodePtr node = node_or_answer(req, inode);
  if (node == nullptr) return;
  char target[PATH_MAX];
  const ssize_t length = ::readlinkat(node->path.get(), "", target, sizeof(target) - 1);
  if (length < 0) return answer(req, -errno);
  target[length] = '\0';
  fuse_reply_readlink(req, target);
}

// What a name stands for before it goes, if it is a file that the kernel or a ring may still use
// afterwards.
NodePtr before_removal(FileSystem& fs, const Node& folder, const char* name) {
  NodePtr node;
  return fs.nodes->look_up(folder, name, node) == 0 ? node : nullptr;
}

void after_removal(FileSystem& fs, const NodePtr& node) {
  if (node == nullptr) return;
  fs.nodes->unlinked(node);
  fs.nodes->forget(node->inode, 1);
}

void unlink(fuse_req_t req, fuse_ino_t parent, const char* name) {
  if (answered_by_fault(req, "unlink")) return;
  if (is_virtual(parent)) return virtual_unlink(req, parent, name);
  FileSystem& fs = file_system_of(req);
  const NodePtr folder = node_or_answer(req, parent);
  if (folder == nullptr) return;
  const NodePtr node = before_removal(fs, *folder, name);
  const int error = ::unlinkat(folder->path.get(), name, 0) == 0 ? 0 : -errno;
  after_removal(fs, node);
  answer(req, error != 0 ? error : fault_after(req, "unlink"));
}

void rmdir(fuse_req_t req, fuse_ino_t parent, const char* name) {
  if (answered_by_fault(req, "rmdir")) return;
  const NodePtr folder = node_or_answer(req, parent);
  if (folder == nullptr) return;
  const int error = ::unlinkat(folder->path.get(), name, AT_REMOVEDIR) == 0 ? 0 : -errno;
  answer(req, error != 0 ? error : fault_after(req, "rmdir"));
}

void rename(fuse_req_t req, fuse_ino_t parent, const char* name, fuse_ino_t new_parent,
            const char* new_name, unsigned flags) {
  if (answered_by_fault(req, "rename")) return;
  if (flags != 0) return answer(req, -ENOSYS);
  FileSystem& fs = file_system_of(req);
  const NodePtr folder = node_or_answer(req, parent);
  if (folder == nullptr) return;
  const NodePtr new_folder = node_or_answer(req, new_parent);
  if (new_folder == nullptr) return;
  const NodePtr replaced = before_removal(fs, *new_folder, new_name);
  const int result = ::renameat(folder->path.get(), name, new_folder->path.get(), new_name);
  const int error = result == 0 ? 0 : -errno;
  after_removal(fs, replaced);
  answer(req, error != 0 ? error : fault_after(req, "rename"));
}

void link(fuse_req_t req, fuse_ino_t inode, fuse_ino_t new_parent, const char* new_name) {
  if (answered_by_fault(req, "link")) return;
  const NodePtr node = node_or_answer(req, inode);
  if (node == nullptr) return;
  const NodePtr folder = node_or_answer(req, new_parent);
  if (folder == nullptr) return;
  if (::linkat(AT_FDCWD, path_of_fd(node->path.get()).c_str(), folder->path.get(), new_name,
               AT_SYMLINK_FOLLOW) != 0)
    return answer(req, -errno);
  answer_entry(req, *folder, new_name, fault_after(req, "link"));
}

}  // namespace

void set_name_operations(fuse_lowlevel_ops& operations) {
  operations.lookup = lookup;
  operations.forget = forget;
  operations.forget_multi = forget_multi;
  operations.mkdir = mkdir;
  operations.symlink = symlink;
  operations.readlink = readlink;
  operations.unlink = unlink;
  operations.rmdir = rmdir;
  operations.rename = rename;
  operations.link = link;
}

}  // namespace kvsidecar::fake3fs
