// SPDX-License-Identifier: Apache-2.0
// The memory of a ring as a file under /dev/shm, which has a name only while the fuse daemon is
// being told of it.
#pragma once
#include <memory>
#include <string>

#include "ipc/os.h"
#include "sidecar/env.h"

namespace kvsidecar::usrbio {

class RingFile {
 public:
  // Zeroed, its pages allocated (a small /dev/shm is an error here, not SIGBUS later), mode 0600:
  // who can open a ring can read every open file of the mount through the daemon. That is enough:
  // the daemon runs as root, or as the user of this process, or could not open host pools either.
  static Result<std::unique_ptr<RingFile>> make(size_t bytes, FaultPoints& faults);
  RingFile(const RingFile&) = delete;
  RingFile& operator=(const RingFile&) = delete;
  ~RingFile();

  const std::string& path() const { return path_; }
  std::byte* data() const { return memory_.data(); }
  size_t bytes() const { return memory_.size(); }
  void unlink();  // the memory stays until both sides have unmapped it

  // Removes what processes left that died between making a name and unlinking it.
  static void sweep();

 private:
  RingFile() = default;
  std::string path_;  // empty: it has no name
  UniqueFd file_;     // holds the lock that says that the name is in use
  MappedMemory memory_;
};

}  // namespace kvsidecar::usrbio
