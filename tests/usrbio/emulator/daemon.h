// SPDX-License-Identifier: Apache-2.0
// The fuse daemon's side, in this process: tests/usrbio/core with worker threads, made when it is
// first needed. What it was told of ends with it; another one begins with empty tables.
#pragma once
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "tests/usrbio/core/counts.h"
#include "tests/usrbio/core/faults.h"
#include "tests/usrbio/core/ring.h"
#include "tests/usrbio/emulator/mounts.h"
#include "tests/usrbio/emulator/open_files.h"

namespace kvsidecar::emulator {

class Daemon {
 public:
  Daemon(Mounts& mounts, OpenFiles& files, fake3fs::Faults& faults)
      : mounts_(mounts), files_(files), faults_(faults) {}

  // Registers the file of /dev/shm by a link of that name. 0 or -errno; then there is no link.
  int add_iov(const std::string& mount, const fake3fs::Id& id, uint64_t block_size,
              const std::string& target);
  int add_ring(const std::string& mount, const fake3fs::Id& id, const std::string& key,
               const fake3fs::RingOptions& options, const std::string& target);
  // -ENOENT: it was none, which also a wrong key leads to.
  int remove(const std::string& mount, const fake3fs::Id& id, const std::string& key);

  // Learns of links that others have made for this iov or taken away.
  void look_for_iov(const std::string& mount, const fake3fs::Id& id);

  bool alive() const;
  uint64_t generation() const;  // a ring belongs to the daemon that it was made with
  void submitted(uint64_t generation, fake3fs::Priority priority);
  void release_stalled();
  void scan_at_idle(bool wanted);  // prepared I/O may then start without any submit

  // Returns when nothing of it touches memory any more.
  void kill();
  void restart();
  fake3fs::Counts& counts() { return counts_; }

 private:
  struct Life;
  std::shared_ptr<Life> life() const;  // null: dead
  int link(const std::string& mount, const std::string& key, const std::string& target);

  Mounts& mounts_;
  OpenFiles& files_;
  fake3fs::Faults& faults_;
  fake3fs::Counts counts_;
  mutable std::mutex lock_;
  mutable std::shared_ptr<Life> life_;
  bool dead_ = false, idle_scans_ = false;
  uint64_t generation_ = 1;
  std::map<fake3fs::Id, std::string> links_;  // of iovs that the daemon knows
};

}  // namespace kvsidecar::emulator
