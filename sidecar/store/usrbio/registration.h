// SPDX-License-Identifier: Apache-2.0
// Memory or a ring that the fuse daemon knows: the symlink in its folder of registrations. Owns it:
// the name goes with the object. [mount] of client.h.
#pragma once
#include <memory>
#include <string>

#include "sidecar/store/usrbio/keys.h"
#include "sidecar/store/usrbio/mount.h"

namespace kvsidecar::usrbio {

class Registration {
 public:
  // shared_memory: the path of a regular file directly under /dev/shm. When this returns, the
  // daemon has mapped it; it pins the pages later. error: what the kernel said, where it failed.
  static Result<std::unique_ptr<Registration>> make(std::shared_ptr<Mount> mount, std::string key,
                                                    const std::string& shared_memory,
                                                    int* error = nullptr);
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;
  ~Registration();

 private:
  Registration(std::shared_ptr<Mount> mount, std::string key);
  const std::shared_ptr<Mount> mount_;
  const std::string key_;
};

// kInvalid unless the path names a regular file directly under /dev/shm (the daemon opens it by its
// name there) of at least that many bytes, more than 0.
Status check_shared_memory(const std::string& path, uint64_t bytes);

// Memory of the caller's, registered under an id of its own.
struct RegisteredMemory {
  MemoryId id;
  std::unique_ptr<Registration> registration;
};
Result<RegisteredMemory> register_shared_memory(std::shared_ptr<Mount> mount,
                                                const std::string& path, uint64_t bytes);

}  // namespace kvsidecar::usrbio
