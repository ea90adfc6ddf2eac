// SPDX-License-Identifier: Apache-2.0
#include <cerrno>

#include "tests/usrbio/mini3fs/file_system.h"

namespace kvsidecar::fake3fs {

FileSystem& file_system_of(fuse_req_t req) {
  return *static_cast<FileSystem*>(fuse_req_userdata(req));
}

std::vector<std::string> operation_fault_names() {
  std::vector<std::string> names;
  for (const char* operation :
       {"lookup", "getattr", "setattr", "readlink", "mkdir", "unlink", "rmdir", "symlink", "rename",
        "link", "open", "create", "read", "write", "flush", "fsync", "opendir", "statfs", "ioctl"})
    names.push_back(std::string("fuse.") + operation);
  for (const char* operation : {"mkdir", "unlink", "rmdir", "symlink", "rename", "link", "create"})
    names.push_back(std::string("fuse.") + operation + ".after");
  return names;
}

bool answered_by_fault(fuse_req_t req, const char* operation) {
  const int error = file_system_of(req).faults->error_at(std::string("fuse.") + operation);
  if (error != 0) fuse_reply_err(req, error);
  return error != 0;
}

int fault_after(fuse_req_t req, const char* operation) {
  return -file_system_of(req).faults->error_at(std::string("fuse.") + operation + ".after");
}

void answer(fuse_req_t req, int error) { fuse_reply_err(req, -error); }

bool entry_of(FileSystem& fs, const NodePtr& node, fuse_entry_param& entry) {
  entry.ino = node->inode;
  entry.generation = 1;
  entry.attr_timeout = fs.timeouts.attributes;
  entry.entry_timeout = fs.timeouts.entry;
  return fs.nodes->stat(*node, entry.attr) == 0;
}

void answer_entry(fuse_req_t req, const Node& folder, const char* name, int error) {
  FileSystem& fs = file_system_of(req);
  if (error != 0) return answer(req, error);
  NodePtr node;
  if (error = fs.nodes->look_up(folder, name, node); error != 0) return answer(req, error);
  fuse_entry_param entry{};
  if (!entry_of(fs, node, entry)) {
    fs.nodes->forget(node->inode, 1);
    return answer(req, -ENOENT);
  }
  fuse_reply_entry(req, &entry);
}

NodePtr node_or_answer(fuse_req_t req, fuse_ino_t inode) {
  NodePtr node = file_system_of(req).nodes->get(inode);
  if (node == nullptr) answer(req, is_virtual(inode) ? -EPERM : -ENOENT);
  return node;
}

}  // namespace kvsidecar::fake3fs
