// SPDX-License-Identifier: Apache-2.0
#include "sidecar/shell/listening_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace kvsidecar {
namespace {

constexpr int kBacklog = 128;

Result<UniqueFd> make_socket() {
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return os_error("socket", errno);
  return fd;
}

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return invalid("daemon.socket = \"" + path + "\" has " + std::to_string(path.size()) +
                   " bytes, a socket's path takes " + std::to_string(sizeof address.sun_path - 1) +
                   "; choose a shorter one");
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

Status remove_stale(const std::string& path, const sockaddr_un& address) {
  struct stat facts {};
  if (::lstat(path.c_str(), &facts) != 0)
    return errno == ENOENT ? Status() : os_error("stat " + path, errno, Code::kInvalid);
  if (!S_ISSOCK(facts.st_mode))
    return invalid("daemon.socket = \"" + path + "\" is something else than a socket; remove it");
  const Result<UniqueFd> probe = make_socket();
  if (!probe) return probe.status();
  if (::connect(probe->get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
      errno != ECONNREFUSED)
    return {Code::kBusy, "somebody listens on daemon.socket = \"" + path +
                             "\" already; stop that daemon, or choose another path"};
  if (::unlink(path.c_str()) != 0) return os_error("unlink " + path, errno, Code::kInvalid);
  return {};
}

}  // namespace

Result<ListeningSocket> ListeningSocket::open(const std::string& path,
                                              std::optional<uint32_t> gid) {
  const Result<sockaddr_un> address = address_of(path);
  if (!address) return address.status();
  if (Status status = remove_stale(path, *address); !status.ok()) return status;
  Result<UniqueFd> fd = make_socket();
  if (!fd) return fd.status();
  // 0600 from the first moment; the group gets its share only after the group is set.
  const mode_t before = ::umask(0177);
  const int bound =
      ::bind(fd->get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address);
  const int error = errno;
  ::umask(before);
  if (bound != 0) return os_error("daemon.socket = \"" + path + "\"", error, Code::kInvalid);
  ListeningSocket socket;
  socket.path_ = path;
  struct stat facts {};
  if (::lstat(path.c_str(), &facts) != 0) return os_error("stat " + path, errno);
  socket.device_ = facts.st_dev;
  socket.inode_ = facts.st_ino;
  if (gid) (void)!::chown(path.c_str(), static_cast<uid_t>(-1), *gid);
  if (::chmod(path.c_str(), 0660) != 0) return os_error("chmod " + path, errno);
  if (::listen(fd->get(), kBacklog) != 0) return os_error("listen " + path, errno);
  socket.fd_ = fd.take();
  return socket;
}

bool ListeningSocket::reachable() const {
  struct stat facts {};
  return ::lstat(path_.c_str(), &facts) == 0 && facts.st_dev == device_ && facts.st_ino == inode_;
}

ListeningSocket::~ListeningSocket() {
  if (!path_.empty() && reachable()) ::unlink(path_.c_str());
}

}  // namespace kvsidecar
