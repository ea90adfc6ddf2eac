// SPDX-License-Identifier: Apache-2.0
// What a store's files need around their life where the file system is one that may hang: 3FS's
// descriptors are registered between open and first transfer, and every call that waits for its
// daemon is made elsewhere. Plain files need no door. One owner (the store worker); never blocks.
#pragma once
#include <functional>

#include "ipc/os.h"

namespace kvsidecar {

class FileDoor {
 public:
  virtual ~FileDoor() = default;
  // A file was opened; `ready` comes later, with 0 or an errno. The descriptor stays the caller's.
  virtual void opened(int fd, std::function<void(int error)> ready) = 0;
  // No transfer uses it any more: takes it away and closes it.
  virtual void close(UniqueFd fd) = 0;
  // run() elsewhere, where it may block; then finish(), here.
  virtual void run(std::function<void()> run, std::function<void()> finish) = 0;
};

}  // namespace kvsidecar
