// SPDX-License-Identifier: Apache-2.0
// Both sides of the handshake over real sockets (handshake_input.h). The daemon's: arbitrary
// messages with any number of fds cost only their own connection, a session is opened only after
// HELLO and READY, and the next client is served. The client's: an arbitrary WELCOME with any fds
// is refused by a sentence, or its memory is exactly what its geometry says. No fd stays behind.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "sidecar/shell/listener.h"
#include "sidecar/shell/log.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/handshake_input.h"
#include "tests/support/fakes.h"

namespace kvsidecar::fuzz {
namespace {

constexpr Geometry kGeometry{8, 1, 8, 16, 64, 16};

struct Folder {
  std::string path;
  Folder() {
    char name[] = "/tmp/kvsidecar-fuzz-XXXXXX";
    require(::mkdtemp(name) != nullptr, "a folder can be made");
    path = name;
  }
  ~Folder() { std::filesystem::remove_all(path); }
};

// The lowest free number: fds that stay behind move it.
int next_fd() {
  const UniqueFd fd(::dup(2));
  return fd.get();
}

class Host final : public SessionHost {
 public:
  uint64_t next_session_number() override { return ++last_; }
  bool has_session_room(const Permissions&) override { return true; }
  void open_session(uint64_t session, OpenedSession&& session_opened) override {
    require(ready_expected, "a session is opened after HELLO and READY");
    require(session_opened.name.size() < sizeof(Hello::name), "a name is cut");
    open_[session] = std::move(session_opened);
    ++opened;
  }
  bool offer_fd(uint64_t session, uint64_t, UniqueFd fd) override {
    require(open_.count(session) == 1 && fd, "an fd is of an open session");
    return fds_.size() < kPendingFdsMax && (fds_.push_back(std::move(fd)), true);
  }
  void session_gone(uint64_t session, const char*) override { open_.erase(session); }
  bool session_alive(uint64_t session) override { return open_.count(session) > 0; }

  bool ready_expected = false;
  int opened = 0;

 private:
  uint64_t last_ = 0;
  std::map<uint64_t, OpenedSession> open_;
  std::vector<UniqueFd> fds_;
};

UniqueFd connect_to(const std::string& path) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  require(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0,
          "the daemon's socket takes connections");
  return fd;
}

void daemon_side(FuzzInput& in) {
  static const Folder folder;
  const std::string path = folder.path + "/d.sock";
  testing::FakeClock clock;
  Host host;
  Reaper reaper(8, nullptr);
  Result<ListeningSocket> socket = ListeningSocket::open(path, std::nullopt);
  require(socket.ok(), "a socket is opened:", socket.status().text());
  Listener listener(socket.take(), {}, AllowRules({}, ::geteuid(), {}), host, reaper, clock);
  const auto settle = [&] {
    for (bool busy = true; busy;) {
      busy = reaper.step();
      busy = listener.step() || busy;
    }
  };
  UniqueFd peer = connect_to(path);
  const int fds_all[8] = {2, 2, 2, 2, 2, 2, 2, 2};
  bool hello = false;
  for (int messages = 0; messages < 40 && !in.empty(); ++messages) {
    const auto say = in.take<Say>();
    const auto bytes = in.take_bytes(say.bytes % 600u);
    if (bytes.empty()) continue;
    uint64_t magic = 0;
    std::memcpy(&magic, bytes.data(), std::min(bytes.size(), sizeof magic));
    if (hello && magic == kReadyMagic) host.ready_expected = true;
    if (magic == kHelloMagic) hello = true;
    // Refused once the daemon has hung up.
    (void)send_message(peer.get(), bytes, std::span(fds_all).first(say.fds % 9u));
    settle();
  }
  require(listener.connections() <= 1, "a connection is one");
  peer.reset();
  settle();
  require(listener.connections() == 0 && listener.half_open() == 0, "a peer that left is gone");

  const int before = host.opened;
  UniqueFd next = connect_to(path);
  Hello right{};
  right.magic = kHelloMagic;
  right.bytes = sizeof right;
  right.protocol_major = kProtocolMajor;
  const Ready ready{kReadyMagic};
  host.ready_expected = true;
  (void)send_message(next.get(), std::as_bytes(std::span(&right, 1)), {});
  settle();
  (void)send_message(next.get(), std::as_bytes(std::span(&ready, 1)), {});
  settle();
  require(host.opened == before + 1, "the next client is served");
  next.reset();
  settle();
}

// A daemon that answers each HELLO with what the fuzzer wants, in a thread of its own.
class FalseDaemon {
 public:
  FalseDaemon() : path(folder_.path + "/f.sock") {
    auto made = ListeningSocket::open(path, std::nullopt);
    require(made.ok(), "a socket is opened");
    listening_ = std::make_unique<ListeningSocket>(made.take());
  }
  Result<kvsidecar::Connection> answer(std::span<const std::byte> welcome,
                                       std::span<const int> fds) {
    std::thread daemon([&] {
      pollfd ready{listening_->fd(), POLLIN, 0};
      if (::poll(&ready, 1, 10'000) != 1) return;
      const UniqueFd socket(::accept4(listening_->fd(), nullptr, nullptr, SOCK_CLOEXEC));
      std::byte hello[256];
      std::vector<UniqueFd> none;
      (void)receive_message(socket.get(), hello, none, 0);
      if (!welcome.empty()) (void)send_message(socket.get(), welcome, fds);
    });
    auto connection = connect_to_daemon(path, "fuzz", monotonic_ns() + 10'000'000'000);
    daemon.join();
    return connection;
  }

 private:
  Folder folder_;

 public:
  const std::string path;

 private:
  std::unique_ptr<ListeningSocket> listening_;
};

void client_side(FuzzInput& in) {
  static FalseDaemon daemon;
  static const SessionShare share = make_session_share(kGeometry, 3, 4).take();
  static const UniqueFd pidfd = open_pidfd(::getpid()).take();
  static const UniqueFd other = make_sealed_memfd("other", submission_bytes(kGeometry)).take();
  const size_t count = in.take<uint8_t>() % 9u;
  const uint8_t kinds = in.take<uint8_t>(), edits = in.take<uint8_t>();
  int fds[9] = {share.submission_fd.get(),
                share.completion_fd.get(),
                share.cells_fd.get(),
                share.kick.get(),
                share.notify.get(),
                pidfd.get(),
                2,
                2,
                2};
  for (unsigned i = 0; i < 8; ++i)
    if (kinds >> i & 1) fds[i] = i % 2 == 0 ? other.get() : 2;
  Welcome welcome{};
  welcome.magic = kWelcomeMagic;
  welcome.bytes = sizeof welcome;
  welcome.protocol_major = kProtocolMajor;
  welcome.epoch = 3;
  welcome.session = 4;
  welcome.geometry = kGeometry;
  auto* const bytes = reinterpret_cast<std::byte*>(&welcome);
  for (uint8_t i = 0; i < edits; ++i) {
    const uint16_t offset = in.take<uint16_t>();
    bytes[offset % sizeof welcome] = in.take<std::byte>();
  }
  std::span<const std::byte> message(bytes, sizeof welcome);
  if (!in.empty()) message = in.take_bytes(4096);
  const auto connection = daemon.answer(message, std::span(fds).first(count));
  if (!connection.ok()) return require_sentence(connection.status());
  const Geometry& g = connection->share.geometry;
  require(count == kWelcomeFds, "a session has six fds");
  require(connection->share.submission.size() == submission_bytes(g) &&
              connection->share.completion.size() == completion_bytes(g) &&
              connection->share.cells.size() == cells_bytes(g),
          "a session's memory is what its geometry says");
}

}  // namespace
}  // namespace kvsidecar::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace kvsidecar;
  using namespace kvsidecar::fuzz;
  static const bool quiet = (set_log_sink([](LogLevel, const std::string&) {}, nullptr), true);
  (void)quiet;
  FuzzInput in(data, bytes);
  const Side side = in.take<Side>();
  // What is made once is made before the count.
  static const bool warm = [] {
    FuzzInput nothing(nullptr, 0);
    client_side(nothing);
    daemon_side(nothing);
    return true;
  }();
  (void)warm;
  const int before = next_fd();
  if (side == Side::kDaemon)
    daemon_side(in);
  else
    client_side(in);
  require(next_fd() == before, "no fd stays behind");
  return 0;
}
