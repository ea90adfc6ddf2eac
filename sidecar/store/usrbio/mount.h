// SPDX-License-Identifier: Apache-2.0
// A 3FS mount as both clients use it: where it is, its folder of registrations, whether it is still
// the one that was opened. Every call is a round trip to the fuse daemon ([mount] of client.h);
// one thread makes them all.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "ipc/os.h"
#include "ipc/result.h"
#include "sidecar/env.h"

namespace kvsidecar::usrbio {

// What a file of the mount is to the server.
struct FileIdentity {
  uint64_t inode = 0;
  bool readable = false, writable = false;  // as the descriptor was opened
};

class Mount {
 public:
  // Opens the folder of registrations. While any Mount of the calling thread has it open, what this
  // thread registered lives; when the process dies, the fuse daemon drops all of it. faults outlive
  // the Mount.
  static Result<std::shared_ptr<Mount>> open(const std::string& mount_point, FaultPoints& faults);

  const std::string& point() const { return point_; }
  int registry() const { return registry_->get(); }  // a folder's descriptor, for symlinkat()
  FaultPoints& faults() const { return faults_; }
  // Asks the server: the folder answers, and what is mounted at the mount point is still this.
  bool alive() const;
  // A regular file of this mount; kInvalid for any other. Doesn't wait for attributes.
  Result<FileIdentity> identify(int fd) const;
  // kInvalid unless the server of the folder (a descriptor) says that it is 3FS and speaks the
  // ioctl version that we know.
  static Status check_protocol(int folder, const std::string& mount_point);

 private:
  Mount(std::string point, std::shared_ptr<UniqueFd> registry, uint64_t device, uint64_t inode,
        FaultPoints& faults);
  const std::string point_;
  const std::shared_ptr<UniqueFd> registry_;
  const uint64_t device_, inode_;  // of the folder of registrations
  FaultPoints& faults_;
};

// The folder that exists and holds the path, or is it; without links. For a path that isn't there
// yet, the nearest parent that is.
Result<std::string> existing_folder(const std::string& path);

}  // namespace kvsidecar::usrbio
