// SPDX-License-Identifier: Apache-2.0
#include "ipc/handshake_io.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

namespace kvsidecar {
namespace {

// Enough for a HELLO or WELCOME of a later minor version, which may only append.
constexpr size_t kMessageBytesMax = 4096;

// First bytes of HELLO and WELCOME; these never change, whatever the major version.
constexpr size_t kHelloPrefixBytes = offsetof(Hello, reserved);

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

std::string version_text(uint32_t major, uint32_t minor) {
  return std::to_string(major) + "." + std::to_string(minor);
}

Status check_range(const char* field, uint32_t value, uint32_t low, uint32_t high, bool power) {
  if (value >= low && value <= high && (!power || std::has_single_bit(value))) return {};
  return invalid(std::string("geometry: ") + field + " is " + std::to_string(value) + "; use " +
                 (power ? "a power of two from " : "") + std::to_string(low) + " to " +
                 std::to_string(high));
}

Status check_geometry(const Geometry& g) {
  for (const Status& checked : {check_range("submission_cells", g.submission_cells, 8, 1024, true),
                                check_range("arena_blocks", g.arena_blocks, 1, 64, false),
                                check_range("completion_cells", g.completion_cells, 8, 1024, true),
                                check_range("fences", g.fences, 1, 65536, false),
                                check_range("claims", g.claims, 64, 65536, true),
                                check_range("progress_words", g.progress_words, 1, 1024, false)}) {
    if (!checked.ok()) return checked;
  }
  return {};
}

Status unavailable(const std::string& text) { return {Code::kUnavailable, text}; }

// Waits until the socket has something to read, at most up to the deadline.
Status wait_readable(int socket, uint64_t deadline_ns) {
  for (;;) {
    const uint64_t now = monotonic_ns();
    const uint64_t left_ms = now >= deadline_ns ? 0 : (deadline_ns - now + 999'999) / 1'000'000;
    pollfd state{socket, POLLIN, 0};
    const int ready = ::poll(&state, 1, static_cast<int>(std::min<uint64_t>(left_ms, 60'000)));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return os_error("poll of the daemon's socket", errno);
    if (monotonic_ns() >= deadline_ns) {
      return unavailable("the daemon didn't answer HELLO before the deadline; see its log");
    }
  }
}

Result<UniqueFd> connect_socket(const std::string& path, uint64_t deadline_ns) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return invalid("socket path '" + path + "' has " + std::to_string(path.size()) +
                   " bytes; use 1 to 107");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket) return os_error("socket", errno);
  const uint64_t now = monotonic_ns();
  if (now >= deadline_ns) return unavailable("connect to " + path + ": the deadline has passed");
  // While the listen queue is full only a blocking connect can wait; its limit is SO_SNDTIMEO.
  const uint64_t left_us = std::max<uint64_t>((deadline_ns - now) / 1000, 1);
  const timeval limit{static_cast<time_t>(left_us / 1'000'000),
                      static_cast<suseconds_t>(left_us % 1'000'000)};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  while (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) !=
         0) {
    if (errno == EINTR && monotonic_ns() < deadline_ns) continue;
    return os_error("connect to " + path + " (check that kvsidecard runs and may be reached)",
                    errno, errno == EACCES ? Code::kDenied : Code::kUnavailable);
  }
  const int flags = ::fcntl(socket.get(), F_GETFL);
  if (flags < 0 || ::fcntl(socket.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    return os_error("making the daemon's socket non-blocking", errno);
  }
  return socket;
}

Hello make_hello(const std::string& name) {
  Hello hello{};
  hello.magic = kHelloMagic;
  hello.bytes = sizeof hello;
  hello.protocol_major = kProtocolMajor;
  hello.protocol_minor = kProtocolMinor;
  random_bytes(std::as_writable_bytes(std::span(hello.instance)));
  std::memcpy(hello.name, name.data(), std::min(name.size(), sizeof hello.name - 1));
  return hello;
}

Status check_welcome(std::span<const std::byte> message, size_t fds, Welcome& welcome) {
  if (message.empty()) return unavailable("the daemon hung up instead of WELCOME; see its log");
  if (message.size() >= sizeof welcome) std::memcpy(&welcome, message.data(), sizeof welcome);
  if (message.size() < sizeof welcome || welcome.magic != kWelcomeMagic ||
      welcome.bytes != message.size()) {
    return invalid("WELCOME of " + std::to_string(message.size()) +
                   " bytes: its magic or size is wrong; check which program owns the socket");
  }
  if (welcome.status != 0) {
    const bool known = welcome.status < kCodesMax;
    const std::string text(welcome.text, ::strnlen(welcome.text, sizeof welcome.text));
    return {
        known ? static_cast<Code>(welcome.status) : Code::kInternal,
        text.empty() ? "the daemon refuses this client and doesn't say why; see its log" : text};
  }
  if (welcome.protocol_major != kProtocolMajor) {
    return {Code::kUnsupportedVersion,
            "the daemon speaks protocol " +
                version_text(welcome.protocol_major, welcome.protocol_minor) + ", this client " +
                version_text(kProtocolMajor, kProtocolMinor) + "; update the older of the two"};
  }
  if (fds != kWelcomeFds) {
    return invalid("WELCOME carries " + std::to_string(fds) + " fds, not " +
                   std::to_string(kWelcomeFds) + "; update the older side");
  }
  return check_geometry(welcome.geometry);
}

Result<MappedMemory> map_checked(int fd, const char* name, size_t bytes, Access access) {
  const Result<FileFacts> facts = file_facts(fd);
  if (!facts) return facts.status();
  const int needed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL |
                     (access == Access::kReadOnly ? F_SEAL_FUTURE_WRITE : 0);
  if (facts->bytes != bytes) {
    return invalid(std::string(name) + " memfd: size is " + std::to_string(facts->bytes) +
                   ", not " + std::to_string(bytes) + " as its geometry says; restart the daemon");
  }
  if (facts->seals < 0 || (facts->seals & needed) != needed) {
    return invalid(std::string(name) + " memfd: seals are " + std::to_string(facts->seals) +
                   " and lack some of " + std::to_string(needed) + "; restart the daemon");
  }
  return MappedMemory::map(fd, 0, bytes, access);
}

Status map_share(const Welcome& welcome, SessionShare& share) {
  const Geometry& g = welcome.geometry;
  share.geometry = g;
  auto submission =
      map_checked(share.submission_fd.get(), "submission", submission_bytes(g), Access::kReadWrite);
  if (!submission) return submission.status();
  auto completion =
      map_checked(share.completion_fd.get(), "completion", completion_bytes(g), Access::kReadOnly);
  if (!completion) return completion.status();
  auto cells = map_checked(share.cells_fd.get(), "cells", cells_bytes(g), Access::kReadWrite);
  if (!cells) return cells.status();
  share.submission = submission.take();
  share.completion = completion.take();
  share.cells = cells.take();
  const InfoPage& info = share.memory().info();
  if (info.magic != kInfoMagic || info.protocol_major != welcome.protocol_major ||
      info.epoch != welcome.epoch || info.session != welcome.session ||
      std::memcmp(&info.geometry, &g, sizeof g) != 0) {
    return invalid("the info page names another session than WELCOME; restart the daemon");
  }
  return {};
}

// The daemon's pid as its pidfd names it: SO_PEERCRED would be whoever created the listening
// socket.
int pid_of(int pidfd) {
  const std::string path = "/proc/self/fdinfo/" + std::to_string(pidfd);
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char text[1024];
  const ssize_t got = file ? ::read(file.get(), text, sizeof text - 1) : 0;
  text[got > 0 ? got : 0] = 0;
  const char* line = std::strstr(text, "Pid:");
  return line == nullptr ? 0 : static_cast<int>(std::strtol(line + 4, nullptr, 10));
}

}  // namespace

SessionMemory SessionShare::memory() const {
  return {submission.data(), completion.data(), cells.data(), geometry};
}

Result<SessionShare> make_session_share(const Geometry& geometry, uint64_t epoch,
                                        uint64_t session) {
  if (Status checked = check_geometry(geometry); !checked.ok()) return checked;
  SessionShare share;
  share.geometry = geometry;
  const auto make = [](const char* name, size_t bytes, UniqueFd& fd, MappedMemory& memory) {
    auto made = make_memfd(name, bytes);
    if (!made) return made.status();
    fd = made.take();
    auto mapped = MappedMemory::map(fd.get(), 0, bytes, Access::kReadWrite);
    if (mapped) memory = mapped.take();
    return mapped.status();
  };
  for (const Status& made :
       {make("kvsidecar-submission", submission_bytes(geometry), share.submission_fd,
             share.submission),
        make("kvsidecar-completion", completion_bytes(geometry), share.completion_fd,
             share.completion),
        make("kvsidecar-cells", cells_bytes(geometry), share.cells_fd, share.cells)}) {
    if (!made.ok()) return made;
  }
  // The completion memfd only now: FUTURE_WRITE leaves the mapping above writable and no other.
  for (const Status& sealed :
       {seal(share.submission_fd.get(), false), seal(share.completion_fd.get(), true),
        seal(share.cells_fd.get(), false)}) {
    if (!sealed.ok()) return sealed;
  }
  auto kick = make_eventfd(), notify = make_bell();
  if (!kick || !notify) return kick ? notify.status() : kick.status();
  share.kick = kick.take();
  share.notify = notify.take();
  InfoPage& info = share.memory().info();
  info.protocol_major = kProtocolMajor;
  info.protocol_minor = kProtocolMinor;
  info.epoch = epoch;
  info.session = session;
  info.geometry = geometry;
  std::atomic_ref<uint64_t>(info.magic).store(kInfoMagic, std::memory_order_release);
  return share;
}

Status check_hello(std::span<const std::byte> message, Hello& hello) {
  hello = Hello{};
  const std::string what = "HELLO of " + std::to_string(message.size()) + " bytes: ";
  if (message.size() < kHelloPrefixBytes) return invalid(what + "cut short; send 96 bytes");
  std::memcpy(&hello, message.data(), std::min(message.size(), sizeof hello));
  if (hello.magic != kHelloMagic) {
    return invalid(what + "magic is wrong; this socket takes only kvsidecar clients");
  }
  if (hello.protocol_major != kProtocolMajor) {
    return {Code::kUnsupportedVersion,
            "the client speaks protocol " +
                version_text(hello.protocol_major, hello.protocol_minor) + ", this daemon " +
                version_text(kProtocolMajor, kProtocolMinor) + "; update the older of the two"};
  }
  // A later minor version may append fields; this one has exactly these.
  const bool longer = message.size() > sizeof hello && hello.protocol_minor > kProtocolMinor;
  if (hello.bytes != message.size() || (message.size() != sizeof hello && !longer)) {
    return invalid(what + "field bytes is " + std::to_string(hello.bytes) +
                   "; protocol 1.0 has 96 bytes");
  }
  if (hello.reserved != 0) {
    return invalid(what + "reserved is " + std::to_string(hello.reserved) + "; it must be 0");
  }
  hello.name[sizeof hello.name - 1] = 0;
  // The name goes into logs: no line breaks or terminal sequences from a peer.
  for (char& c : hello.name) {
    if (c != 0 && (static_cast<uint8_t>(c) < 0x20 || c == 0x7f)) c = '?';
  }
  return {};
}

Status send_welcome(int socket, const SessionShare& share, uint64_t epoch, uint64_t session,
                    const std::array<std::byte, 16>& node, int daemon_pidfd) {
  Welcome welcome{};
  welcome.magic = kWelcomeMagic;
  welcome.bytes = sizeof welcome;
  welcome.status = static_cast<uint32_t>(Code::kOk);
  welcome.protocol_major = kProtocolMajor;
  welcome.protocol_minor = kProtocolMinor;
  welcome.epoch = epoch;
  welcome.session = session;
  welcome.geometry = share.geometry;
  std::memcpy(welcome.node, node.data(), node.size());
  int fds[kWelcomeFds];
  fds[kFdSubmission] = share.submission_fd.get();
  fds[kFdCompletion] = share.completion_fd.get();
  fds[kFdCells] = share.cells_fd.get();
  fds[kFdKick] = share.kick.get();
  fds[kFdNotify] = share.notify.get();
  fds[kFdDaemonPid] = daemon_pidfd;
  return send_message(socket, bytes_of(welcome), fds);
}

void send_refusal(int socket, const Status& status) {
  KV_CHECK(!status.ok());
  Welcome welcome{};
  welcome.magic = kWelcomeMagic;
  welcome.bytes = sizeof welcome;
  welcome.status = static_cast<uint32_t>(status.code());
  welcome.protocol_major = kProtocolMajor;
  welcome.protocol_minor = kProtocolMinor;
  std::memcpy(welcome.text, status.text().data(),
              std::min(status.text().size(), sizeof welcome.text - 1));
  // A peer that is gone already needs no refusal.
  (void)send_message(socket, bytes_of(welcome), {});
}

Result<Connection> connect_to_daemon(const std::string& path, const std::string& name,
                                     uint64_t deadline_ns) {
  auto socket = connect_socket(path, deadline_ns);
  if (!socket) return socket.status();
  Connection connection;
  connection.socket = socket.take();
  const int fd = connection.socket.get();
  const Hello hello = make_hello(name);
  if (Status sent = send_message(fd, bytes_of(hello), {}); !sent.ok()) return sent;

  std::array<std::byte, kMessageBytesMax> buffer;
  std::vector<UniqueFd> fds;
  Result<size_t> got = size_t{0};
  do {
    if (Status waited = wait_readable(fd, deadline_ns); !waited.ok()) return waited;
    got = receive_message(fd, buffer, fds, kWelcomeFds);
  } while (!got && got.status().code() == Code::kBusy);
  if (!got) return got.status();
  Welcome welcome{};
  Status checked = check_welcome(std::span(buffer).first(*got), fds.size(), welcome);
  if (!checked.ok()) return checked;

  SessionShare& share = connection.share;
  share.submission_fd = std::move(fds[kFdSubmission]);
  share.completion_fd = std::move(fds[kFdCompletion]);
  share.cells_fd = std::move(fds[kFdCells]);
  share.kick = std::move(fds[kFdKick]);
  share.notify = std::move(fds[kFdNotify]);
  share.daemon_pid = std::move(fds[kFdDaemonPid]);
  if (Status mapped = map_share(welcome, share); !mapped.ok()) return mapped;
  connection.epoch = welcome.epoch;
  connection.session = welcome.session;
  std::memcpy(connection.node.data(), welcome.node, connection.node.size());
  connection.daemon_pid = pid_of(share.daemon_pid.get());
  const Ready ready{kReadyMagic};
  if (Status sent = send_message(fd, bytes_of(ready), {}); !sent.ok()) return sent;
  return connection;
}

Status send_region_fd(int socket, uint64_t token, int fd) {
  const FdMessage message{kFdMagic, token};
  return send_message(socket, bytes_of(message), std::span(&fd, 1));
}

}  // namespace kvsidecar
