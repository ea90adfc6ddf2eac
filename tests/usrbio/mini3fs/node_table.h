// SPDX-License-Identifier: Apache-2.0
// The files and folders that the kernel knows, by inode number: rings may address these only. A
// number is made of the file's own number and birth time in the data folder, so it stays the same
// over a restart and is never that of another file. Any thread (own lock).
#pragma once
#include <sys/stat.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "tests/usrbio/core/data_file.h"
#include "tests/usrbio/core/faults.h"

namespace kvsidecar::fake3fs {

inline constexpr uint64_t kRootInode = 1;

struct Node {
  uint64_t inode = 0;
  UniqueFd path;  // O_PATH
  mode_t type = 0;
  uint64_t lookups = 0;            // that the kernel has not given back; the table's lock
  std::shared_ptr<DataFile> file;  // made when first needed; the table's lock
  std::atomic<bool> unlinked = false;
};
using NodePtr = std::shared_ptr<Node>;

class NodeTable final : public FileTable {
 public:
  static Result<std::unique_ptr<NodeTable>> open(const std::string& data_folder,
                                                 uint64_t chunk_bytes, Faults& faults);

  NodePtr get(uint64_t inode) const;  // null: not known
  // The file of that name, counted as one more lookup; 0 or -errno.
  int look_up(const Node& folder, const char* name, NodePtr& found);
  void forget(uint64_t inode, uint64_t lookups);
  std::shared_ptr<DataFile> find(uint64_t inode) override;
  std::shared_ptr<DataFile> data_of(Node& node);  // null: no regular file, or it can't be opened
  int stat(Node& node, struct stat& facts);       // length as the fault stat.delayed says
  void unlinked(const NodePtr& node);             // if that was its last name
  void settle_all();                              // periodic sync: all lengths show
  void collect_unlinked();                        // GC: chunks of unlinked open files vanish

 private:
  NodeTable(uint64_t chunk_bytes, Faults& faults) : chunk_bytes_(chunk_bytes), faults_(faults) {}
  std::shared_ptr<DataFile> data_locked(Node& node);

  const uint64_t chunk_bytes_;
  Faults& faults_;
  mutable std::mutex lock_;
  std::map<uint64_t, NodePtr> nodes_;
};

// A path that opens what an O_PATH descriptor stands for.
std::string path_of_fd(int fd);

}  // namespace kvsidecar::fake3fs
