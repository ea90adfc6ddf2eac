// SPDX-License-Identifier: Apache-2.0
// 3fs-virt and what lies in it: the submit semaphores' links and the registered iovs and rings.
#include <cerrno>
#include <cstring>

#include "tests/usrbio/mini3fs/file_system.h"

namespace kvsidecar::fake3fs {
namespace {

struct VirtualName {
  uint64_t parent;
  const char* name;
  uint64_t inode;
  mode_t mode;
};

constexpr VirtualName kNames[] = {
    {kRootInode, "3fs-virt", kVirtInode, S_IFDIR | 0555},
    {kVirtInode, "iovs", kIovsInode, S_IFDIR | 0777},
    {kVirtInode, "rm-rf", kRmRfInode, S_IFDIR | 0777},
    {kVirtInode, "get-conf", kGetConfInode, S_IFDIR | 0555},
    {kVirtInode, "set-conf", kSetConfInode, S_IFDIR | 0777},
    {kIovsInode, "submit-ios.ph", semaphore_inode(Priority::kHigh), S_IFLNK | 0444},
    {kIovsInode, "submit-ios", semaphore_inode(Priority::kNormal), S_IFLNK | 0444},
    {kIovsInode, "submit-ios.pl", semaphore_inode(Priority::kLow), S_IFLNK | 0444},
};

const VirtualName* fixed(uint64_t inode) {
  for (const VirtualName& known : kNames)
    if (known.inode == inode) return &known;
  return nullptr;
}

const VirtualName* fixed(uint64_t parent, const char* name) {
  for (const VirtualName& known : kNames)
    if (known.parent == parent && std::strcmp(known.name, name) == 0) return &known;
  return nullptr;
}

struct stat facts_of(const VirtualName& known) {
  struct stat facts {};
  facts.st_ino = known.inode;
  facts.st_mode = known.mode;
  facts.st_nlink = 1;
  return facts;
}

struct stat facts_of(const Registrations::Entry& entry) {
  struct stat facts {};
  facts.st_ino = entry.inode;
  facts.st_mode = S_IFLNK | 0400;
  facts.st_nlink = 1;
  facts.st_uid = entry.uid;
  facts.st_size = static_cast<off_t>(entry.target.size());
  return facts;
}

void answer_entry_of(fuse_req_t req, const struct stat& facts) {
  const FileSystem& fs = file_system_of(req);
  fuse_entry_param entry{};
  entry.ino = facts.st_ino;
  entry.generation = 1;
  entry.attr = facts;
  entry.attr_timeout = fs.timeouts.attributes;
  entry.entry_timeout = fs.timeouts.entry;
  fuse_reply_entry(req, &entry);
}

const std::string* semaphore_path(const FileSystem& fs, uint64_t inode) {
  for (const Priority priority : {Priority::kHigh, Priority::kNormal, Priority::kLow})
    if (semaphore_inode(priority) == inode) return &fs.semaphores->path(priority);
  return nullptr;
}

}  // namespace

void virtual_lookup(fuse_req_t req, fuse_ino_t parent, const char* name) {
  if (const VirtualName* known = fixed(parent, name)) return answer_entry_of(req, facts_of(*known));
  if (parent != kIovsInode) return answer(req, -ENOENT);
  Registrations::Entry entry;
  const int error = file_system_of(req).registrations->find(name, fuse_req_ctx(req)->uid, entry);
  if (error != 0) return answer(req, error);
  answer_entry_of(req, facts_of(entry));
}

void virtual_getattr(fuse_req_t req, fuse_ino_t inode) {
  const FileSystem& fs = file_system_of(req);
  struct stat facts {};
  if (const VirtualName* known = fixed(inode)) {
    facts = facts_of(*known);
  } else {
    Registrations::Entry entry;
    const int error = fs.registrations->find(inode, fuse_req_ctx(req)->uid, entry);
    if (error != 0) return answer(req, error);
    facts = facts_of(entry);
  }
  fuse_reply_attr(req, &facts, fs.timeouts.attributes);
}

void virtual_readlink(fuse_req_t req, fuse_ino_t inode) {
  const FileSystem& fs = file_system_of(req);
  if (const std::string* path = semaphore_path(fs, inode)) {
    fuse_reply_readlink(req, path->c_str());
    return;
  }
  Registrations::Entry entry;
  const int error = fs.registrations->find(inode, fuse_req_ctx(req)->uid, entry);
  if (error != 0) return answer(req, error);
  fuse_reply_readlink(req, entry.target.c_str());
}

void virtual_symlink(fuse_req_t req, const char* target, fuse_ino_t parent, const char* name) {
  if (parent != kIovsInode || fixed(parent, name) != nullptr) return answer(req, -EPERM);
  const fuse_ctx* caller = fuse_req_ctx(req);
  Registrations::Entry entry;
  const int error =
      file_system_of(req).registrations->add(name, target, caller->uid, caller->pid, entry);
  if (error != 0) return answer(req, error);
  answer_entry_of(req, facts_of(entry));
}

void virtual_unlink(fuse_req_t req, fuse_ino_t parent, const char* name) {
  if (parent != kIovsInode || fixed(parent, name) != nullptr) return answer(req, -EPERM);
  answer(req, file_system_of(req).registrations->remove(name, fuse_req_ctx(req)->uid));
}

std::vector<std::pair<std::string, struct stat>> virtual_entries(FileSystem& fs, fuse_ino_t inode,
                                                                 uid_t uid) {
  std::vector<std::pair<std::string, struct stat>> entries;
  for (const VirtualName& known : kNames)
    if (known.parent == inode) entries.emplace_back(known.name, facts_of(known));
  if (inode != kIovsInode) return entries;
  for (const std::string& key : fs.registrations->keys(uid)) {
    Registrations::Entry entry;
    if (fs.registrations->find(key, uid, entry) == 0) entries.emplace_back(key, facts_of(entry));
  }
  return entries;
}

}  // namespace kvsidecar::fake3fs
