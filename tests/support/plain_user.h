// SPDX-License-Identifier: Apache-2.0
// Permissions in tests that may run as root, for whom there are none: while this lives, root is the
// user nobody. One thread.
#pragma once
#include <unistd.h>

#include <cstdlib>

namespace kvsidecar {

class PlainUser {
 public:
  PlainUser() { change(::geteuid() == 0 ? kNobody : ::geteuid()); }
  ~PlainUser() { change(before_); }
  PlainUser(const PlainUser&) = delete;
  PlainUser& operator=(const PlainUser&) = delete;

 private:
  static constexpr uid_t kNobody = 65534;
  static void change(uid_t uid) {
    if (::seteuid(uid) != 0) std::abort();
  }
  const uid_t before_ = ::geteuid();
};

}  // namespace kvsidecar
