// SPDX-License-Identifier: Apache-2.0
#include "sidecar/shell/sd_notify.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "ipc/os.h"

namespace kvsidecar {

void sd_notify(const std::string& state) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address{};
  if (path == nullptr || (path[0] != '/' && path[0] != '@')) return;
  const size_t length = std::strlen(path);
  if (length >= sizeof address.sun_path) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path, length);
  if (path[0] == '@') address.sun_path[0] = 0;  // abstract
  const UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return;
  (void)!::sendto(fd.get(), state.data(), state.size(), MSG_NOSIGNAL,
                  reinterpret_cast<const sockaddr*>(&address),
                  static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length));
}

uint64_t sd_watchdog_interval_ns() {
  const char* text = std::getenv("WATCHDOG_USEC");
  const uint64_t microseconds = text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
  return microseconds * 1000 / 2;
}

}  // namespace kvsidecar
