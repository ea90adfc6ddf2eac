// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/import/server_check.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>

#include "ipc/os.h"

namespace kvsidecar {
namespace {

constexpr int kPatienceMs = 2000;

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

bool read_url(std::string text, std::string& host, std::string& port) {
  if (const size_t scheme = text.find("://"); scheme != std::string::npos)
    text = text.substr(scheme + 3);
  text = text.substr(0, text.find('/'));
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return false;
  host = text.substr(0, colon);
  port = text.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  return !host.empty() && !port.empty();
}

bool takes_connections(const addrinfo& address) {
  const UniqueFd fd(
      socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, address.ai_protocol));
  if (!fd) return false;
  if (connect(fd.get(), address.ai_addr, address.ai_addrlen) == 0) return true;
  if (errno != EINPROGRESS) return false;
  pollfd entry{fd.get(), POLLOUT, 0};
  if (poll(&entry, 1, kPatienceMs) != 1) return false;
  int error = 0;
  socklen_t bytes = sizeof error;
  return getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 && error == 0;
}

}  // namespace

Status check_server_stopped(const std::string& url) {
  std::string host, port;
  if (!read_url(url, host, port))
    return invalid("--server is \"" + url + "\"; write HOST:PORT or http://HOST:PORT");
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0)
    return invalid("--server " + url + ": " + gai_strerror(error) + "; write HOST:PORT");
  const std::unique_ptr<addrinfo, FreeAddresses> list(found);
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next)
    if (takes_connections(*at))
      return {Code::kBusy, "a server answers at " + host + ":" + port +
                               "; while HF3FS's metadata server runs its pages change, so stop "
                               "engines and server first, or name where it ran with --server"};
  return {};
}

}  // namespace kvsidecar
