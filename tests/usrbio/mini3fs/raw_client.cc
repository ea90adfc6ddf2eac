// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/mini3fs/raw_client.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>

namespace kvsidecar::fake3fs {

ShmFile::ShmFile(uint64_t bytes) {
  static std::atomic<int> made = 0;
  path_ = "/dev/shm/kvsidecar.test-" + std::to_string(::getpid()) + "-raw-" +
          std::to_string(made.fetch_add(1));
  const UniqueFd fd(::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  KV_CHECK(fd && ::fchmod(fd.get(), 0666) == 0);
  KV_CHECK(::ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0);
  memory_ = MappedMemory::map(fd.get(), 0, bytes, Access::kReadWrite).take();
}

ShmFile::~ShmFile() { ::unlink(path_.c_str()); }

Id random_id() {
  Id id;
  random_bytes(std::as_writable_bytes(std::span(id)));
  return id;
}

std::string uuid_text(const Id& id) {
  std::string text;
  for (size_t i = 0; i < id.size(); ++i) {
    char pair[3];
    std::snprintf(pair, sizeof(pair), "%02x", id[i]);
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += pair;
  }
  return text;
}

uint64_t inode_of(int fd) {
  struct stat facts {};
  return ::fstat(fd, &facts) == 0 ? facts.st_ino : 0;
}

int RawClient::link(const std::string& target, const std::string& key) const {
  return ::symlink(target.c_str(), (iovs_ + key).c_str()) == 0 ? 0 : -errno;
}

int RawClient::unlink(const std::string& key) const {
  return ::unlink((iovs_ + key).c_str()) == 0 ? 0 : -errno;
}

std::unique_ptr<RawRing> RawClient::make_ring(uint32_t entries, const std::string& what) const {
  auto ring = std::make_unique<RawRing>(entries, uuid_text(random_id()) + what);
  return link(ring->shm.path(), ring->key) == 0 ? std::move(ring) : nullptr;
}

bool RawClient::submit(const std::string& link_name) const {
  char target[PATH_MAX] = {};
  if (::readlink((iovs_ + link_name).c_str(), target, sizeof(target) - 1) < 0) return false;
  const std::string path(target), begin = "/dev/shm/sem.";
  if (!path.starts_with(begin)) return false;
  sem_t* semaphore = ::sem_open(("/" + path.substr(begin.size())).c_str(), 0);
  if (semaphore == SEM_FAILED) return false;
  const bool posted = ::sem_post(semaphore) == 0;
  ::sem_close(semaphore);
  return posted;
}

}  // namespace kvsidecar::fake3fs
