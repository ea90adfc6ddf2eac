// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/mini3fs/node_table.h"

#include <fcntl.h>

#include <cerrno>
#include <filesystem>

namespace kvsidecar::fake3fs {
namespace {

uint64_t mixed(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Above every small number, below those of the virtual folder.
int inode_of(int path_fd, uint64_t& inode, mode_t& type) {
  struct statx facts {};
  if (::statx(path_fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &facts) != 0)
    return -errno;
  const uint64_t born =
      static_cast<uint64_t>(facts.stx_btime.tv_sec) * 1'000'000'000 + facts.stx_btime.tv_nsec;
  inode = (mixed(facts.stx_ino + mixed(born)) & 0x3fff'ffff'ffff'ffff) | 0x4000'0000'0000'0000;
  type = facts.stx_mode & S_IFMT;
  return 0;
}

uint64_t bytes_used_below(const std::string& folder) {
  uint64_t used = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, error)) {
    struct stat facts {};
    if (::lstat(entry.path().c_str(), &facts) == 0 && S_ISREG(facts.st_mode))
      used += std::min(static_cast<uint64_t>(facts.st_size),
                       static_cast<uint64_t>(facts.st_blocks) * 512);
  }
  return used;
}

}  // namespace

std::string path_of_fd(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

Result<std::unique_ptr<NodeTable>> NodeTable::open(const std::string& data_folder,
                                                   uint64_t chunk_bytes, Faults& faults) {
  UniqueFd fd(::open(data_folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return os_error("open the data folder " + data_folder, errno);
  std::unique_ptr<NodeTable> table(new NodeTable(chunk_bytes, faults));
  auto root = std::make_shared<Node>();
  root->inode = kRootInode;
  root->path = std::move(fd);
  root->type = S_IFDIR;
  table->nodes_[kRootInode] = std::move(root);
  faults.space().set_used(bytes_used_below(data_folder));
  return table;
}

NodePtr NodeTable::get(uint64_t inode) const {
  std::lock_guard guard(lock_);
  const auto found = nodes_.find(inode);
  return found == nodes_.end() ? nullptr : found->second;
}

int NodeTable::look_up(const Node& folder, const char* name, NodePtr& found) {
  UniqueFd fd(::openat(folder.path.get(), name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return -errno;
  uint64_t inode = 0;
  mode_t type = 0;
  if (const int error = inode_of(fd.get(), inode, type); error != 0) return error;
  std::lock_guard guard(lock_);
  NodePtr& node = nodes_[inode];
  if (node == nullptr) {
    node = std::make_shared<Node>();
    node->inode = inode;
    node->path = std::move(fd);
    node->type = type;
  }
  ++node->lookups;
  found = node;
  return 0;
}

void NodeTable::forget(uint64_t inode, uint64_t lookups) {
  if (inode == kRootInode) return;
  NodePtr gone;  // closed outside of the lock
  std::lock_guard guard(lock_);
  const auto found = nodes_.find(inode);
  if (found == nodes_.end()) return;
  Node& node = *found->second;
  node.lookups -= std::min(node.lookups, lookups);
  if (node.lookups > 0) return;
  if (node.unlinked && node.file != nullptr) faults_.space().shrink(node.file->stored_bytes());
  gone = std::move(found->second);
  nodes_.erase(found);
}

std::shared_ptr<DataFile> NodeTable::find(uint64_t inode) {
  std::lock_guard guard(lock_);
  const auto found = nodes_.find(inode);
  return found == nodes_.end() ? nullptr : data_locked(*found->second);
}

std::shared_ptr<DataFile> NodeTable::data_of(Node& node) {
  std::lock_guard guard(lock_);
  return data_locked(node);
}

std::shared_ptr<DataFile> NodeTable::data_locked(Node& node) {
  if (node.file != nullptr || !S_ISREG(node.type)) return node.file;
  UniqueFd fd(::open(path_of_fd(node.path.get()).c_str(), O_RDWR | O_CLOEXEC));
  struct stat facts {};
  if (!fd || ::fstat(fd.get(), &facts) != 0) return nullptr;
  ChunkMap chunks = chunks_of_file(fd.get(), chunk_bytes_);
  node.file = std::make_shared<DataFile>(storage_of_fd(std::move(fd)), std::move(chunks),
                                         static_cast<uint64_t>(facts.st_size), faults_.space());
  return node.file;
}

int NodeTable::stat(Node& node, struct stat& facts) {
  if (::fstatat(node.path.get(), "", &facts, AT_EMPTY_PATH) != 0) return -errno;
  facts.st_ino = node.inode;
  std::lock_guard guard(lock_);
  if (node.file != nullptr)
    facts.st_size = static_cast<off_t>(node.file->length(faults_.is_on("stat.delayed")));
  return 0;
}

void NodeTable::unlinked(const NodePtr& node) {
  struct stat facts {};
  if (!S_ISREG(node->type) || ::fstatat(node->path.get(), "", &facts, AT_EMPTY_PATH) != 0 ||
      facts.st_nlink > 0)
    return;
  const auto file = data_of(*node);  // so that its space can be given back
  node->unlinked = true;
  if (faults_.is_on("gc.at_unlink") && file != nullptr) file->collect();
}

void NodeTable::settle_all() {
  std::lock_guard guard(lock_);
  for (const auto& [inode, node] : nodes_)
    if (node->file != nullptr) node->file->settle();
}

void NodeTable::collect_unlinked() {
  std::lock_guard guard(lock_);
  for (const auto& [inode, node] : nodes_)
    if (node->unlinked && node->file != nullptr) node->file->collect();
}

}  // namespace kvsidecar::fake3fs
