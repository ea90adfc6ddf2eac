// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/emulator/descriptors.h"

#include <fcntl.h>
#include <linux/kcmp.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace kvsidecar::emulator {

Duplicate::Duplicate(int fd, ino_t inode, int access, std::shared_ptr<OpenFile> file)
    : fd_(fd), inode_(inode), access_(access), file_(std::move(file)) {
  ++alive_;
}

Duplicate::~Duplicate() {
  ::close(fd_);
  --alive_;
}

int Descriptors::add(int fd, std::shared_ptr<const Duplicate>& made) {
  if (fd < 0 || static_cast<uint64_t>(fd) >= numbers_max_) return EBADF;
  std::lock_guard hold(lock_);
  if (taken_.contains(fd)) return EINVAL;
  struct stat about {};
  const int flags = ::fcntl(fd, F_GETFL);
  if (::fstat(fd, &about) != 0 || flags < 0) return errno;
  const int copy = ::dup(fd);
  if (copy < 0) return errno;
  made = std::make_shared<const Duplicate>(copy, about.st_ino, flags & O_ACCMODE,
                                           files_.open(fd, about.st_ino));
  taken_[fd] = made;
  taken_[copy] = made;
  return 0;
}

void Descriptors::remove(int fd) {
  std::lock_guard hold(lock_);
  const auto found = taken_.find(fd);
  if (found == taken_.end()) return;
  const std::shared_ptr<const Duplicate> kept = found->second;
  taken_.erase(found);
  if (kept->fd() == fd) return;
  const auto copy = taken_.find(kept->fd());
  if (copy != taken_.end() && copy->second == kept) taken_.erase(copy);
}

std::shared_ptr<const Duplicate> Descriptors::find(int fd) const {
  std::lock_guard hold(lock_);
  const auto found = taken_.find(fd);
  return found == taken_.end() ? nullptr : found->second;
}

void Descriptors::orphan_all() {
  std::lock_guard hold(lock_);
  for (const auto& [number, kept] : taken_) kept->orphan();
}

bool Descriptors::is_orphan(int fd) const {
  const std::shared_ptr<const Duplicate> kept = find(fd);
  if (kept == nullptr || !kept->orphaned()) return false;
  const pid_t self = ::getpid();
  return ::syscall(SYS_kcmp, self, self, KCMP_FILE, fd, kept->fd()) == 0;
}

uint64_t Descriptors::count() const {
  std::lock_guard hold(lock_);
  return taken_.size();
}

}  // namespace kvsidecar::emulator
