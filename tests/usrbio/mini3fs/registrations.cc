// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/mini3fs/registrations.h"

#include <cerrno>

#include "tests/usrbio/core/shm_mapping.h"
#include "tests/usrbio/mini3fs/key.h"

namespace kvsidecar::fake3fs {

int Registrations::add(const std::string& key, const std::string& target, uid_t uid, pid_t pid,
                       Entry& entry) {
  Key parsed;
  if (const int error = parse_key(key, parsed); error != 0) return error;
  std::lock_guard guard(lock_);
  if (entries_.contains(key)) return -EEXIST;
  std::shared_ptr<ShmMapping> mapping;
  if (const int error = map_shm(target, mapping); error != 0) return error;
  const std::span<std::byte> bytes = mapping->bytes();
  const int error =
      parsed.ring ? server_.add_ring(parsed.id, bytes, *parsed.ring, std::move(mapping))
                  : server_.add_buffer(parsed.id, bytes, parsed.block_bytes, std::move(mapping));
  if (error != 0) return error;
  entry = {.id = parsed.id,
           .ring = parsed.ring.has_value(),
           .inode = inode_--,
           .uid = uid,
           .pid = pid,
           .target = target};
  entries_.emplace(key, entry);
  return 0;
}

int Registrations::find(const std::string& key, uid_t uid, Entry& entry) const {
  std::lock_guard guard(lock_);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return -ENOENT;
  if (found->second.uid != uid) return -EPERM;
  entry = found->second;
  return 0;
}

int Registrations::find(uint64_t inode, uid_t uid, Entry& entry) const {
  std::lock_guard guard(lock_);
  for (const auto& [key, known] : entries_) {
    if (known.inode != inode) continue;
    if (known.uid != uid) return -EPERM;
    entry = known;
    return 0;
  }
  return -ENOENT;
}

int Registrations::remove(const std::string& key, uid_t uid) {
  std::lock_guard guard(lock_);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return -ENOENT;
  if (found->second.uid != uid) return -EPERM;
  drop(found->second);
  entries_.erase(found);
  return 0;
}

size_t Registrations::reclaim(pid_t pid) {
  std::lock_guard guard(lock_);
  size_t reclaimed = 0;
  for (auto at = entries_.begin(); at != entries_.end();) {
    if (at->second.pid != pid) {
      ++at;
      continue;
    }
    drop(at->second);
    at = entries_.erase(at);
    ++reclaimed;
  }
  return reclaimed;
}

std::vector<std::string> Registrations::keys(uid_t uid) const {
  std::lock_guard guard(lock_);
  std::vector<std::string> keys;
  for (const auto& [key, entry] : entries_)
    if (entry.uid == uid) keys.push_back(key);
  return keys;
}

void Registrations::drop(const Entry& entry) {
  if (entry.ring)
    server_.remove_ring(entry.id);
  else
    server_.remove_buffer(entry.id);
}

}  // namespace kvsidecar::fake3fs
