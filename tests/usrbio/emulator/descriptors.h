// SPDX-License-Identifier: Apache-2.0
// Descriptors that rings may address. The numbers stay taken until they are taken out, whatever
// became of the descriptors: closing a registered one poisons its number.
#pragma once
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "tests/usrbio/emulator/open_files.h"

namespace kvsidecar::emulator {

// A duplicate of a registered descriptor, which keeps its file open. Inherited by exec'ed programs,
// as the real library's.
class Duplicate {
 public:
  Duplicate(int fd, ino_t inode, int access, std::shared_ptr<OpenFile> file);
  ~Duplicate();
  Duplicate(const Duplicate&) = delete;
  Duplicate& operator=(const Duplicate&) = delete;

  int fd() const { return fd_; }
  ino_t inode() const { return inode_; }
  int access() const { return access_; }              // O_RDONLY, O_WRONLY, O_RDWR at registration
  bool orphaned() const { return orphaned_.load(); }  // the daemon that knew it is gone
  void orphan() const { orphaned_.store(true); }
  static uint64_t alive() { return alive_.load(); }

 private:
  const int fd_;
  const ino_t inode_;
  const int access_;
  const std::shared_ptr<OpenFile> file_;
  mutable std::atomic<bool> orphaned_{false};
  static inline std::atomic<uint64_t> alive_{0};
};

class Descriptors {
 public:
  Descriptors(uint64_t numbers_max, OpenFiles& files) : numbers_max_(numbers_max), files_(files) {}

  // Takes fd's number and its duplicate's. 0, EBADF, EINVAL (taken) or dup's errno; then `made`.
  int add(int fd, std::shared_ptr<const Duplicate>& made);
  // Gives fd's number back, and the duplicate's if fd isn't the duplicate itself.
  void remove(int fd);
  std::shared_ptr<const Duplicate> find(int fd) const;  // null: not registered

  // The daemon is gone: what was opened through it stays registered and is of no use.
  void orphan_all();
  // Whether fd is still the same opened file that was registered under it before.
  bool is_orphan(int fd) const;

  uint64_t numbers_max() const { return numbers_max_; }
  uint64_t count() const;

 private:
  const uint64_t numbers_max_;
  OpenFiles& files_;
  mutable std::mutex lock_;
  std::map<int, std::shared_ptr<const Duplicate>> taken_;
};

}  // namespace kvsidecar::emulator
