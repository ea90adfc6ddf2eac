// SPDX-License-Identifier: Apache-2.0
// Operations on files through the kernel, and attributes. What is written this way has its length
// at once; a length that grew through rings is settled by flush, fsync and close.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "tests/usrbio/mini3fs/file_system.h"

namespace kvsidecar::fake3fs {
namespace {

void getattr(fuse_req_t req, fuse_ino_t inode, fuse_file_info*) {
  if (answered_by_fault(req, "getattr")) return;
  if (is_virtual(inode)) return virtual_getattr(req, inode);
  FileSystem& fs = file_system_of(req);
  const NodePtr node = node_or_answer(req, inode);
  if (node == nullptr) return;
  struct stat facts {};
  if (const int error = fs.nodes->stat(*node, facts); error != 0) return answer(req, error);
  fuse_reply_attr(req, &facts, fs.timeouts.attributes);
}

int set_times(const std::string& path, const struct stat& wanted, int what) {
  timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_OMIT}};
  if (what & FUSE_SET_ATTR_ATIME) times[0] = wanted.st_atim;
  if (what & FUSE_SET_ATTR_MTIME) times[1] = wanted.st_mtim;
  if (what & FUSE_SET_ATTR_ATIME_NOW) times[0].tv_nsec = UTIME_NOW;
  if (what & FUSE_SET_ATTR_MTIME_NOW) times[1].tv_nsec = UTIME_NOW;
  return ::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0 ? 0 : -errno;
}

int set_attributes(FileSystem& fs, Node& node, const struct stat& wanted, int what) {
  const std::string path = path_of_fd(node.path.get());
  if ((what & FUSE_SET_ATTR_MODE) != 0 && ::chmod(path.c_str(), wanted.st_mode) != 0) return -errno;
  if ((what & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)) != 0) {
    const uid_t uid = (what & FUSE_SET_ATTR_UID) != 0 ? wanted.st_uid : static_cast<uid_t>(-1);
    const gid_t gid = (what & FUSE_SET_ATTR_GID) != 0 ? wanted.st_gid : static_cast<gid_t>(-1);
    if (::chown(path.c_str(), uid, gid) != 0) return -errno;
  }
  if ((what & FUSE_SET_ATTR_SIZE) != 0) {
    const auto file = fs.nodes->data_of(node);
    if (file == nullptr) return -EINVAL;
    if (const int error = file->truncate(static_cast<uint64_t>(wanted.st_size)); error != 0)
      return error;
  }
  constexpr int kTimes =
      FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_ATIME_NOW | FUSE_SET_ATTR_MTIME_NOW;
  return (what & kTimes) != 0 ? set_times(path, wanted, what) : 0;
}

void setattr(fuse_req_t req, fuse_ino_t inode, struct stat* wanted, int what,
             fuse_file_info* info) {
  if (answered_by_fault(req, "setattr")) return;
  const NodePtr node = node_or_answer(req, inode);
  if (node == nullptr) return;
  const int error = set_attributes(file_system_of(req), *node, *wanted, what);
  if (error != 0) return answer(req, error);
  getattr(req, inode, info);
}

// Whether the file was opened for writing is all that an open file keeps.
void keep_mode(const FileSystem& fs, fuse_file_info* info) {
  info->fh = (info->flags & O_ACCMODE) != O_RDONLY;
  info->direct_io = !fs.read_cache;
}

void open(fuse_req_t req, fuse_ino_t inode, fuse_file_info* info) {
  if (answered_by_fault(req, "open")) return;
  FileSystem& fs = file_system_of(req);
  const NodePtr node = node_or_answer(req, inode);
  if (node == nullptr) return;
  const auto file = fs.nodes->data_of(*node);
  if (file == nullptr) return answer(req, -EACCES);
  if ((info->flags & O_TRUNC) != 0)
    if (const int error = file->truncate(0); error != 0) return answer(req, error);
  keep_mode(fs, info);
  if (fuse_reply_open(req, info) == 0) fs.counts->add("open_files");
}

void create(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode,
            fuse_file_info* info) {
  if (answered_by_fault(req, "create")) return;
  FileSystem& fs = file_system_of(req);
  const NodePtr folder = node_or_answer(req, parent);
  if (folder == nullptr) return;
  const fuse_ctx* caller = fuse_req_ctx(req);
  const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | (info->flags & (O_EXCL | O_TRUNC));
  const UniqueFd made(::openat(folder->path.get(), name, flags, mode & 07777));
  if (!made) return answer(req, -errno);
  if (::fchown(made.get(), caller->uid, caller->gid) != 0) return answer(req, -errno);
  if (const int error = fault_after(req, "create"); error != 0) return answer(req, error);
  NodePtr node;
  if (const int error = fs.nodes->look_up(*folder, name, node); error != 0)
    return answer(req, error);
  fuse_entry_param entry{};
  keep_mode(fs, info);
  if (!entry_of(fs, node, entry) || fs.nodes->data_of(*node) == nullptr) {
    fs.nodes->forget(node->inode, 1);
    return answer(req, -EIO);
  }
  if (fuse_reply_create(req, &entry, info) == 0) fs.counts->add("open_files");
}

std::shared_ptr<DataFile> file_or_answer(fuse_req_t req, fuse_ino_t inode) {
  auto file = file_system_of(req).nodes->find(inode);
  if (file == nullptr) answer(req, -EBADF);
  return file;
}

void read(fuse_req_t req, fuse_ino_t inode, size_t bytes, off_t offset, fuse_file_info*) {
  if (answered_by_fault(req, "read")) return;
  const auto file = file_or_answer(req, inode);
  if (file == nullptr) return;
  std::vector<std::byte> buffer(bytes);
  const int64_t got = file->read_plain(static_cast<uint64_t>(offset), buffer);
  if (got < 0) return answer(req, static_cast<int>(got));
  fuse_reply_buf(req, reinterpret_cast<const char*>(buffer.data()), static_cast<size_t>(got));
}

void write(fuse_req_t req, fuse_ino_t inode, const char* data, size_t bytes, off_t offset,
           fuse_file_info*) {
  if (answered_by_fault(req, "write")) return;
  const auto file = file_or_answer(req, inode);
  if (file == nullptr) return;
  const std::span<const std::byte> from(reinterpret_cast<const std::byte*>(data), bytes);
  const int64_t put = file->write(static_cast<uint64_t>(offset), from, true);
  if (put < 0) return answer(req, static_cast<int>(put));
  fuse_reply_write(req, static_cast<size_t>(put));
}

void settle(fuse_req_t req, fuse_ino_t inode, const fuse_file_info* info) {
  if (info->fh == 0) return;
  if (const auto file = file_system_of(req).nodes->find(inode)) file->settle();
}

void flush(fuse_req_t req, fuse_ino_t inode, fuse_file_info* info) {
  if (answered_by_fault(req, "flush")) return;
  settle(req, inode, info);
  answer(req, 0);
}

void fsync(fuse_req_t req, fuse_ino_t inode, int, fuse_file_info* info) {
  if (answered_by_fault(req, "fsync")) return;
  settle(req, inode, info);
  answer(req, 0);
}

void release(fuse_req_t req, fuse_ino_t inode, fuse_file_info* info) {
  settle(req, inode, info);
  file_system_of(req).counts->add("open_files", -1);
  answer(req, 0);
}

}  // namespace

void set_file_operations(fuse_lowlevel_ops& operations) {
  operations.getattr = getattr;
  operations.setattr = setattr;
  operations.open = open;
  operations.create = create;
  operations.read = read;
  operations.write = write;
  operations.flush = flush;
  operations.fsync = fsync;
  operations.release = release;
}

}  // namespace kvsidecar::fake3fs
