// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "ipc/os.h"

namespace kvsidecar {
namespace {

constexpr size_t kMessageFdsMax = 253;  // the most that Linux passes; the rest it would close here
constexpr int kSoPeerPidfd = 77;       // kernel 6.5; Debian 12's headers lack the name

using ControlBuffer = std::array<std::byte, CMSG_SPACE(sizeof(int) * kMessageFdsMax) +
                                                CMSG_SPACE(sizeof(ucred))>;

// recvmsg into `bytes`, again when interrupted; `message` and its `control` are then for take_fds.
ssize_t receive(int socket, std::span<std::byte> bytes, int flags, ControlBuffer& control,
                msghdr& message) {
  iovec part{bytes.data(), bytes.size()};
  ssize_t got = 0;
  do {
    message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | flags);
  } while (got < 0 && errno == EINTR);
  message.msg_iov = nullptr;  // it was this call's
  return got;
}

// Takes every fd out of the message, so that none is lost when the message is then refused.
void take_fds(msghdr& message, std::vector<UniqueFd>& fds) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
      // Closing a socket that lingers would block for as long as its sender chose.
      const linger none{0, 0};
      (void)::setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
      fds.emplace_back(fd);
    }
  }
}

// Field 22 of /proc/PID/stat; 0 when the process can't be seen. Counted from the last ')', because
// the name before it is the process's own choice.
uint64_t start_time(int pid) {
  UniqueFd fd(::open(("/proc/" + std::to_string(pid) + "/stat").c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return 0;
  char text[1024];
  const ssize_t got = ::read(fd.get(), text, sizeof text - 1);
  if (got <= 0) return 0;
  text[got] = 0;
  const char* at = std::strrchr(text, ')');
  for (int field = 2; at != nullptr && field < 22; ++field) at = std::strchr(at + 1, ' ');
  return at == nullptr ? 0 : std::strtoull(at, nullptr, 10);
}

}  // namespace

Status send_message(int socket, std::span<const std::byte> bytes, std::span<const int> fds) {
  KV_CHECK(fds.size() <= kMessageFdsMax);
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) ControlBuffer control{};
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(c), fds.data(), fds.size_bytes());
  }
  while (::sendmsg(socket, &message, MSG_NOSIGNAL) < 0) {
    if (errno == EINTR) continue;
    const Code code = errno == EAGAIN                         ? Code::kBusy
                      : errno == EPIPE || errno == ECONNRESET ? Code::kUnavailable
                                                              : Code::kInternal;
    return os_error("sending a message of " + std::to_string(bytes.size()) + " bytes and " +
                        std::to_string(fds.size()) + " fds",
                    errno, code);
  }
  return {};
}

Result<size_t> receive_message(int socket, std::span<std::byte> buffer, std::vector<UniqueFd>& fds,
                               size_t fds_max) {
  fds.clear();
  alignas(cmsghdr) ControlBuffer control{};
  msghdr message{};
  const ssize_t got = receive(socket, buffer, 0, control, message);
  if (got < 0) {
    if (errno == ECONNRESET) return size_t{0};
    return os_error("receiving a message", errno, errno == EAGAIN ? Code::kBusy : Code::kInternal);
  }
  take_fds(message, fds);
  Status refused;
  if ((message.msg_flags & MSG_TRUNC) != 0) {
    refused = invalid("the message is longer than the " + std::to_string(buffer.size()) +
                      " bytes that may come here; send what this protocol version names");
  } else if ((message.msg_flags & MSG_CTRUNC) != 0 || fds.size() > fds_max) {
    refused =
        invalid("the message carries " + std::to_string(fds.size()) + " fds or more, at most " +
                std::to_string(fds_max) + " may come here; send fewer");
  }
  if (refused.ok() && got != 0) return static_cast<size_t>(got);
  discard_fds(std::move(fds));
  fds.clear();
  if (!refused.ok()) return refused;
  return size_t{0};
}

void close_peer_socket(UniqueFd socket) {
  if (!socket) return;
  ::shutdown(socket.get(), SHUT_RDWR);  // from here on nothing can be added
  // An empty message and the end both read as 0: with credentials asked for, only a message has
  // something beside it.
  const int on = 1;
  (void)::setsockopt(socket.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
  std::vector<UniqueFd> fds;
  for (;;) {
    std::byte byte{};
    alignas(cmsghdr) ControlBuffer control{};
    msghdr message{};
    const ssize_t got = receive(socket.get(), {&byte, 1}, MSG_DONTWAIT, control, message);
    if (got < 0 || (got == 0 && message.msg_controllen == 0)) break;
    take_fds(message, fds);
  }
  discard_fds(std::move(fds));
}

Result<PeerIdentity> peer_identity(int socket) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    return os_error("SO_PEERCRED", errno);
  }
  PeerIdentity identity{credentials.pid, credentials.uid, credentials.gid, {}};
  identity.groups.resize(64);
  for (;;) {
    length = static_cast<socklen_t>(identity.groups.size() * sizeof(gid_t));
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, identity.groups.data(), &length) == 0)
      break;
    // On ERANGE the kernel has written the length that it needs.
    if (errno != ERANGE || length <= identity.groups.size() * sizeof(gid_t)) {
      return os_error("SO_PEERGROUPS", errno);
    }
    identity.groups.resize(length / sizeof(gid_t));
  }
  identity.groups.resize(length / sizeof(gid_t));
  return identity;
}

Result<UniqueFd> open_pidfd(int pid) {
  const std::string what = "pidfd of pid " + std::to_string(pid);
  if (pid <= 0) {
    return invalid(what + ": the process can't be seen from this pid namespace; share the host's");
  }
  const uint64_t before = start_time(pid);
  UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!fd) return os_error(what, errno, errno == ESRCH ? Code::kUnavailable : Code::kInternal);
  // The number may have gone to another process between its naming and the open.
  if (before == 0 || start_time(pid) != before) {
    return Status{Code::kUnavailable, what + ": the process has ended; connect again"};
  }
  return fd;
}

Result<UniqueFd> peer_pidfd(int socket, int pid) {
  int fd = -1;
  socklen_t length = sizeof fd;
  if (::getsockopt(socket, SOL_SOCKET, kSoPeerPidfd, &fd, &length) == 0) return UniqueFd(fd);
  if (errno == ENOPROTOOPT || errno == EINVAL || errno == ENOTSUP) return open_pidfd(pid);
  return os_error("SO_PEERPIDFD", errno, errno == ESRCH ? Code::kUnavailable : Code::kInternal);
}

bool pidfd_exited(int pidfd) {
  pollfd state{pidfd, POLLIN, 0};
  int ready = 0;
  while ((ready = ::poll(&state, 1, 0)) < 0 && errno == EINTR) {
  }
  return ready > 0 && (state.revents & (POLLIN | POLLHUP)) != 0;
}

}  // namespace kvsidecar
