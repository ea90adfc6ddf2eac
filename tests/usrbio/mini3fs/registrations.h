// SPDX-License-Identifier: Apache-2.0
// What lies in 3fs-virt/iovs: a symlink for each registered iov and ring, with who made it. Only
// the uid that made one sees it. Any thread (own lock).
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tests/usrbio/core/server.h"

namespace kvsidecar::fake3fs {

class Registrations {
 public:
  struct Entry {
    Id id = {};
    bool ring = false;
    uint64_t inode = 0;
    uid_t uid = 0;
    pid_t pid = 0;  // as FUSE tells it: the id of the thread
    std::string target;
  };

  // first_inode: of the first entry; they go down from there and are never used again.
  Registrations(Server& server, uint64_t first_inode) : server_(server), inode_(first_inode) {}

  // 0 or -errno; all checks that the daemon makes.
  int add(const std::string& key, const std::string& target, uid_t uid, pid_t pid, Entry& entry);
  int find(const std::string& key, uid_t uid, Entry& entry) const;  // -ENOENT, -EPERM
  int find(uint64_t inode, uid_t uid, Entry& entry) const;          // the same
  int remove(const std::string& key, uid_t uid);                    // the same
  // Who had the folder open is gone: what the same thread made goes. How many.
  size_t reclaim(pid_t pid);
  std::vector<std::string> keys(uid_t uid) const;

 private:
  void drop(const Entry& entry);

  Server& server_;
  mutable std::mutex lock_;
  std::map<std::string, Entry> entries_;
  uint64_t inode_;
};

}  // namespace kvsidecar::fake3fs
