// SPDX-License-Identifier: Apache-2.0
// What all FUSE operations of mini3fs share: the tables, the faults, and how to answer. The
// operations themselves are in ops_*.cc; libfuse calls them on threads of its own.
#pragma once
#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>

#include <string>
#include <vector>

#include "tests/usrbio/core/server.h"
#include "tests/usrbio/mini3fs/node_table.h"
#include "tests/usrbio/mini3fs/registrations.h"
#include "tests/usrbio/mini3fs/submit_semaphores.h"

namespace kvsidecar::fake3fs {

// Inode numbers of the virtual folder, as the real daemon gives them.
inline constexpr uint64_t kVirtInode = 0xffff'ffff'ffff'fffe;
inline constexpr uint64_t kIovsInode = 0xffff'ffff'8000'0000;
inline constexpr uint64_t kFirstIovInode = kIovsInode - 65535;
inline constexpr uint64_t kRmRfInode = kVirtInode - 1;
inline constexpr uint64_t kGetConfInode = kVirtInode - 2;
inline constexpr uint64_t kSetConfInode = kVirtInode - 3;
inline constexpr uint64_t kFirstVirtualInode = 0xffff'ffff'0000'0000;
inline bool is_virtual(uint64_t inode) { return inode >= kFirstVirtualInode; }
inline constexpr uint64_t semaphore_inode(Priority priority) {  // high, normal, low: 1, 2, 3 below
  return kIovsInode - 1 - static_cast<uint64_t>(priority);
}

struct KernelTimeouts {  // seconds; 0: the kernel asks each time
  double attributes = 0, entry = 0, negative = 0;
};

struct FileSystem {
  std::string name = "mini";  // the mount's name that GET_MOUNT_NAME tells
  KernelTimeouts timeouts;
  bool read_cache = true;  // of the kernel, per open, as upstream: stale beside writes by rings
  Faults* faults = nullptr;
  Counts* counts = nullptr;
  NodeTable* nodes = nullptr;
  Server* server = nullptr;
  Registrations* registrations = nullptr;
  SubmitSemaphores* semaphores = nullptr;
};

FileSystem& file_system_of(fuse_req_t req);

// The names of the faults "fuse.OP" (the operation isn't done) and "fuse.OP.after" (it is done, and
// answered with the error all the same, as when an answer was lost and the operation tried again).
std::vector<std::string> operation_fault_names();
// Answers with the fault that is set for this operation: true, nothing more is to be done.
bool answered_by_fault(fuse_req_t req, const char* operation);
// 0 or the negative error that is to be answered although the operation is done.
int fault_after(fuse_req_t req, const char* operation);

void answer(fuse_req_t req, int error);  // 0 or -errno
// Looks the name up and answers with the entry; error: 0, or what is answered instead.
void answer_entry(fuse_req_t req, const Node& folder, const char* name, int error);
bool entry_of(FileSystem& fs, const NodePtr& node, fuse_entry_param& entry);  // false: it is gone
// The node, or answered with -ENOENT / -EPERM (virtual) and null.
NodePtr node_or_answer(fuse_req_t req, fuse_ino_t inode);

struct OpenFolder {
  std::vector<std::pair<std::string, struct stat>> entries;
  pid_t opener = 0;
};

// The virtual folder's side of the operations.
void virtual_lookup(fuse_req_t req, fuse_ino_t parent, const char* name);
void virtual_getattr(fuse_req_t req, fuse_ino_t inode);
void virtual_readlink(fuse_req_t req, fuse_ino_t inode);
void virtual_symlink(fuse_req_t req, const char* target, fuse_ino_t parent, const char* name);
void virtual_unlink(fuse_req_t req, fuse_ino_t parent, const char* name);
std::vector<std::pair<std::string, struct stat>> virtual_entries(FileSystem& fs, fuse_ino_t inode,
                                                                 uid_t uid);

// Which operations mini3fs serves; each group sets its own.
void set_name_operations(fuse_lowlevel_ops& operations);
void set_folder_operations(fuse_lowlevel_ops& operations);
void set_file_operations(fuse_lowlevel_ops& operations);
void set_ioctl_operation(fuse_lowlevel_ops& operations);

}  // namespace kvsidecar::fake3fs
