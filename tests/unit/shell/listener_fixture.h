// SPDX-License-Identifier: Apache-2.0
// A listener on a real socket that the test steps itself, with a fake host, a fake clock and a
// reaper that the test turns; and the client's side of the handshake, step by step.
#pragma once
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <map>

#include "sidecar/shell/listener.h"
#include "sidecar/shell/log.h"
#include "tests/unit/shell/fake_clock.h"
#include "tests/unit/shell/temp_dir.h"

namespace kvsidecar {

class FakeHost final : public SessionHost {
 public:
  uint64_t next_session_number() override { return ++last; }
  bool has_session_room(const Permissions&) override { return open.size() < room; }
  void open_session(uint64_t session, OpenedSession&& opened) override {
    open.emplace(session, std::move(opened));
  }
  bool offer_fd(uint64_t, uint64_t token, UniqueFd fd) override {
    if (fds.size() >= kPendingFdsMax) return false;
    fds[token] = std::move(fd);
    return true;
  }
  void session_gone(uint64_t session, const char* reason) override {
    gone[session] = reason;
    open.erase(session);
  }
  bool session_alive(uint64_t session) override { return open.count(session) > 0; }

  uint64_t last = 0;
  size_t room = 100;
  std::map<uint64_t, OpenedSession> open;
  std::map<uint64_t, UniqueFd> fds;
  std::map<uint64_t, std::string> gone;
};

inline size_t open_fds() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

inline Hello hello_of_this_version() {
  Hello hello{};
  hello.magic = kHelloMagic;
  hello.bytes = sizeof hello;
  hello.protocol_major = kProtocolMajor;
  std::strcpy(hello.name, "test");
  return hello;
}

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

class ListenerTest : public testing::Test {
 protected:
  ListenerTest() : reaper_(64, nullptr) {
    set_log_sink([](LogLevel, const std::string&) {}, nullptr);
    start({});
  }
  ~ListenerTest() override { set_log_sink(nullptr, nullptr); }

  void start(std::vector<AllowEntry> entries, const ListenerOptions& options = {}) {
    listener_.reset();
    Result<ListeningSocket> socket = ListeningSocket::open(path_, std::nullopt);
    ASSERT_TRUE(socket.ok()) << socket.status().text();
    listener_ = std::make_unique<Listener>(socket.take(), options,
                                           AllowRules(std::move(entries), ::geteuid(), {}), host_,
                                           reaper_, clock_);
  }
  // Steps until nothing more happens.
  void settle() {
    for (bool busy = true; busy;) {
      busy = reaper_.step();
      busy = listener_->step() || busy;
    }
  }
  UniqueFd connect() {
    UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path_.c_str());
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return fd;
  }
  void say(const UniqueFd& fd, std::span<const std::byte> bytes) {
    EXPECT_TRUE(send_message(fd.get(), bytes, {}).ok());
  }
  // What WELCOME says; its fds are closed.
  Welcome hear_welcome(const UniqueFd& fd) {
    Welcome welcome{};
    std::vector<UniqueFd> fds;
    const Result<size_t> got =
        receive_message(fd.get(), std::as_writable_bytes(std::span(&welcome, 1)), fds, kWelcomeFds);
    EXPECT_TRUE(got.ok());
    return welcome;
  }
  bool hung_up(const UniqueFd& fd) {
    pollfd state{fd.get(), POLLIN, 0};
    return ::poll(&state, 1, 5000) == 1 && (state.revents & POLLHUP) != 0;
  }
  // A client that has gone through the whole handshake.
  UniqueFd attach() {
    UniqueFd fd = connect();
    say(fd, bytes_of(hello_of_this_version()));
    settle();
    EXPECT_EQ(hear_welcome(fd).status, 0u);
    say(fd, bytes_of(Ready{kReadyMagic}));
    settle();
    return fd;
  }
  // Still serves: the proof that a bad peer cost only itself.
  void expect_serving() {
    const size_t before = host_.open.size();
    const UniqueFd fd = attach();
    EXPECT_EQ(host_.open.size(), before + 1);
  }

  TempDir dir_;
  const std::string path_ = dir_ / "s.sock";
  FakeClock clock_;
  FakeHost host_;
  Reaper reaper_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace kvsidecar
