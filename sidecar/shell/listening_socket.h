// SPDX-License-Identifier: Apache-2.0
// The socket that clients connect to: SOCK_SEQPACKET, 0660, group kvsidecar where it exists, never
// wider for a moment. Start-up, before any thread that creates files (it sets the umask).
#pragma once
#include <optional>
#include <string>

#include "ipc/os.h"

namespace kvsidecar {

class ListeningSocket {
 public:
  // A stale socket is removed, but only when nobody listens on it: kBusy when somebody does,
  // kInvalid when the path is too long or holds something else.
  static Result<ListeningSocket> open(const std::string& path, std::optional<uint32_t> gid);
  ListeningSocket(ListeningSocket&&) noexcept = default;
  ~ListeningSocket();  // removes the path if it is still this socket
  int fd() const { return fd_.get(); }
  // False once somebody has removed or replaced the path: no new client can come.
  bool reachable() const;

 private:
  ListeningSocket() = default;
  UniqueFd fd_;
  std::string path_;
  uint64_t device_ = 0, inode_ = 0;
};

}  // namespace kvsidecar
