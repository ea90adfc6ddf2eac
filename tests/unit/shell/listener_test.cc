// SPDX-License-Identifier: Apache-2.0
// Goal: a peer that dies, stalls or talks nonsense at any step of the handshake costs only its own
// connection, and what it held is given back. Method: real sockets against a listener that the test
// steps itself, with a fake host, a fake clock, and a reaper that the test turns.
#include "sidecar/shell/listener.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <future>
#include <map>

#include "sidecar/shell/log.h"
#include "tests/unit/shell/fake_clock.h"
#include "tests/unit/shell/temp_dir.h"

namespace kvsidecar {
namespace {

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

size_t open_fds() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

Hello hello_of_this_version() {
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

TEST_F(ListenerTest, AClientOfTheLibraryIsLedThroughTheHandshake) {
  auto connecting = std::async(std::launch::async, [&] {
    return connect_to_daemon(path_, "engine", monotonic_ns() + 30'000'000'000).take();
  });
  while (host_.open.empty()) {
    pollfd state{listener_->fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&state, 1, 10'000), 1);
    settle();
  }
  const Connection connection = connecting.get();
  EXPECT_EQ(connection.session, host_.open.begin()->first);
  EXPECT_EQ(connection.daemon_pid, ::getpid());
  const OpenedSession& opened = host_.open.begin()->second;
  EXPECT_EQ(opened.name, "engine");
  EXPECT_EQ(opened.pid, ::getpid());
  EXPECT_EQ(opened.uid, ::geteuid());
  EXPECT_TRUE(opened.permissions.put);
  EXPECT_EQ(listener_->half_open(), 0u);
}

TEST_F(ListenerTest, APeerThatHangsUpAtAnyStepLeavesNothing) {
  const size_t before = open_fds();
  for (int step = 0; step < 4; ++step) {
    UniqueFd fd = connect();
    settle();
    if (step >= 1) say(fd, bytes_of(hello_of_this_version()));
    if (step == 2) {
      settle();
      hear_welcome(fd);
    }
    if (step == 3) listener_->step();  // HELLO is taken, its memory isn't made yet
    fd.reset();
    settle();
    EXPECT_EQ(listener_->connections(), 0u) << step;
    EXPECT_EQ(listener_->half_open(), 0u) << step;
    EXPECT_EQ(open_fds(), before) << step;
  }
  EXPECT_TRUE(host_.open.empty());
  expect_serving();
}

TEST_F(ListenerTest, APeerThatStallsBeforeHelloOrBeforeReadyIsEndedAtItsDeadline) {
  const UniqueFd silent = connect();
  const UniqueFd unready = connect();
  settle();
  say(unready, bytes_of(hello_of_this_version()));
  settle();
  EXPECT_EQ(listener_->half_open(), 2u);
  EXPECT_LE(listener_->next_deadline_ns(), clock_.now_ns() + 5'000'000'000);
  clock_.advance_ns(5'000'000'001);
  settle();
  EXPECT_EQ(listener_->half_open(), 0u);
  EXPECT_EQ(listener_->next_deadline_ns(), ~0ull);
  EXPECT_TRUE(hung_up(silent));
  expect_serving();
}

TEST_F(ListenerTest, AnAttachedClientHasNoDeadline) {
  const UniqueFd client = attach();
  clock_.advance_ns(3'600'000'000'000);
  settle();
  EXPECT_EQ(host_.open.size(), 1u);
}

TEST_F(ListenerTest, AHelloOfTheWrongSizeOrMagicIsRefusedBySentence) {
  Hello wrong = hello_of_this_version();
  wrong.magic ^= 1;
  const std::byte one{};
  for (const auto& message : {bytes_of(wrong), bytes_of(one)}) {
    const UniqueFd fd = connect();
    say(fd, message);
    settle();
    const Welcome answer = hear_welcome(fd);
    EXPECT_EQ(answer.status, static_cast<uint32_t>(Code::kInvalid));
    EXPECT_GT(std::strlen(answer.text), 10u);
    EXPECT_TRUE(hung_up(fd));
  }
  expect_serving();
}

TEST_F(ListenerTest, AnUnknownProtocolVersionIsRefusedByName) {
  Hello later = hello_of_this_version();
  later.protocol_major = 99;
  const UniqueFd fd = connect();
  say(fd, bytes_of(later));
  settle();
  const Welcome answer = hear_welcome(fd);
  EXPECT_EQ(answer.status, static_cast<uint32_t>(Code::kUnsupportedVersion));
  EXPECT_NE(std::string(answer.text).find("99"), std::string::npos);
}

TEST_F(ListenerTest, AReadyThatIsNoneEndsTheConnection) {
  const UniqueFd fd = connect();
  say(fd, bytes_of(hello_of_this_version()));
  settle();
  hear_welcome(fd);
  say(fd, bytes_of(Ready{1}));
  settle();
  EXPECT_TRUE(hung_up(fd));
  EXPECT_TRUE(host_.open.empty());
}

TEST_F(ListenerTest, AUserThatNoEntryListsIsDenied) {
  AllowEntry other;
  other.uids = {::geteuid() + 1};
  start({other});
  const UniqueFd fd = connect();
  say(fd, bytes_of(hello_of_this_version()));
  settle();
  const Welcome answer = hear_welcome(fd);
  EXPECT_EQ(answer.status, static_cast<uint32_t>(Code::kDenied));
  EXPECT_NE(std::string(answer.text).find("[[allow]]"), std::string::npos);
}

TEST_F(ListenerTest, TheEntryThatMatchedDecidesThePermissions) {
  AllowEntry own;
  own.uids = {::geteuid()};
  own.permissions.read = true;
  own.permissions.entry = 1;
  start({own});
  const UniqueFd client = attach();
  ASSERT_EQ(host_.open.size(), 1u);
  EXPECT_FALSE(host_.open.begin()->second.permissions.put);
  EXPECT_EQ(host_.open.begin()->second.permissions.entry, 1u);
}

TEST_F(ListenerTest, WithoutRoomForASessionAClientIsRefusedAndLaterLetIn) {
  host_.room = 0;
  const UniqueFd fd = connect();
  say(fd, bytes_of(hello_of_this_version()));
  settle();
  EXPECT_EQ(hear_welcome(fd).status, static_cast<uint32_t>(Code::kOverQuota));
  host_.room = 1;
  expect_serving();
}

TEST_F(ListenerTest, WhileDrainingAHelloIsAnsweredWithDraining) {
  listener_->drain();
  const UniqueFd fd = connect();
  say(fd, bytes_of(hello_of_this_version()));
  settle();
  EXPECT_EQ(hear_welcome(fd).status, static_cast<uint32_t>(Code::kDraining));
}

TEST_F(ListenerTest, AUserWithTooManyHandshakesUnderWayIsRefused) {
  ListenerOptions options;
  options.half_open_per_uid = 3;
  start({}, options);
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 3; ++i) silent.push_back(connect());
  settle();
  const UniqueFd fd = connect();
  settle();
  EXPECT_EQ(hear_welcome(fd).status, static_cast<uint32_t>(Code::kBusy));
  EXPECT_EQ(listener_->half_open(), 3u);
  silent.clear();
  settle();
  expect_serving();
}

TEST_F(ListenerTest, BeyondTheLimitConnectionsWaitAndAreServedWhenThereIsRoom) {
  ListenerOptions options;
  options.half_open_max = 2;
  start({}, options);
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 2; ++i) silent.push_back(connect());
  settle();
  const UniqueFd waiting = connect();
  settle();
  EXPECT_EQ(listener_->half_open(), 2u);
  pollfd state{listener_->fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&state, 1, 0), 0) << "a full listener must not spin";
  silent.pop_back();
  settle();
  settle();
  EXPECT_EQ(listener_->half_open(), 2u);
  say(waiting, bytes_of(hello_of_this_version()));
  settle();
  EXPECT_EQ(hear_welcome(waiting).status, 0u);
}

TEST_F(ListenerTest, ARegionsFdReachesTheSessionUnderItsToken) {
  const UniqueFd client = attach();
  Result<UniqueFd> memory = make_memfd("region", 4096);
  ASSERT_TRUE(memory.ok());
  ASSERT_TRUE(send_region_fd(client.get(), 42, memory->get()).ok());
  settle();
  EXPECT_EQ(host_.fds.count(42), 1u);
  EXPECT_EQ(host_.open.size(), 1u);
}

TEST_F(ListenerTest, TooManyWaitingFdsAnFdlessMessageOrAnUnknownOneEndsOnlyThatSession) {
  const UniqueFd bystander = attach();
  const UniqueFd flooding = attach();
  Result<UniqueFd> memory = make_memfd("region", 4096);
  for (uint64_t token = 0; token <= kPendingFdsMax; ++token)
    ASSERT_TRUE(send_region_fd(flooding.get(), token, memory->get()).ok());
  settle();
  EXPECT_TRUE(hung_up(flooding));
  host_.fds.clear();
  const UniqueFd fdless = attach();
  say(fdless, bytes_of(FdMessage{kFdMagic, 1}));
  settle();
  EXPECT_TRUE(hung_up(fdless));
  const UniqueFd unknown = attach();
  say(unknown, bytes_of(uint64_t{7}));
  settle();
  EXPECT_TRUE(hung_up(unknown));
  EXPECT_EQ(host_.open.size(), 1u);
}

TEST_F(ListenerTest, AClosedSocketEndsTheSession) {
  UniqueFd client = attach();
  client.reset();
  settle();
  EXPECT_TRUE(host_.open.empty());
  EXPECT_EQ(host_.gone.begin()->second, "hung_up");
}

TEST_F(ListenerTest, ADeadProcessEndsItsSessionThoughSomebodyElseHoldsTheSocket) {
  const UniqueFd held = connect();  // also in the child: the child speaks, this process keeps it
  int hold[2];
  ASSERT_EQ(::pipe(hold), 0);
  settle();
  const pid_t child = ::fork();
  if (child == 0) {
    UniqueFd own(::socket(AF_UNIX, SOCK_SEQPACKET, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path_.c_str());
    (void)!::connect(own.get(), reinterpret_cast<sockaddr*>(&address), sizeof address);
    if (::fork() == 0) {  // the grandchild that inherits the socket
      ::close(hold[1]);
      char byte;
      (void)!::read(hold[0], &byte, 1);
      ::_exit(0);
    }
    const Hello hello = hello_of_this_version();
    (void)send_message(own.get(), bytes_of(hello), {});
    std::vector<UniqueFd> fds;
    Welcome welcome{};
    (void)receive_message(own.get(), std::as_writable_bytes(std::span(&welcome, 1)), fds,
                          kWelcomeFds);
    const Ready ready{kReadyMagic};
    (void)send_message(own.get(), bytes_of(ready), {});
    for (;;) ::pause();
  }
  while (host_.open.empty()) {
    pollfd state{listener_->fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&state, 1, 10'000), 1);
    settle();
  }
  ::kill(child, SIGKILL);
  while (!host_.open.empty()) {
    pollfd state{listener_->fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&state, 1, 10'000), 1);
    settle();
  }
  EXPECT_EQ(host_.gone.begin()->second, "process_ended");
  ::waitpid(child, nullptr, 0);
  ::close(hold[0]);
  ::close(hold[1]);
}

TEST_F(ListenerTest, ASessionThatItsHostEndedIsHungUp) {
  const UniqueFd client = attach();
  host_.open.clear();
  clock_.advance_ns(10'000'000);
  settle();
  EXPECT_TRUE(hung_up(client));
  EXPECT_TRUE(host_.gone.empty());
}

TEST_F(ListenerTest, AKickWakesTheListenerOnceAndNotAfterTheSessionsEnd) {
  UniqueFd client = attach();
  const UniqueFd kick(::dup(host_.open.begin()->second.share.kick.get()));
  eventfd_signal(kick.get());
  pollfd state{listener_->fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&state, 1, 5000), 1);
  settle();
  EXPECT_EQ(::poll(&state, 1, 0), 0);
  client.reset();
  settle();
  eventfd_signal(kick.get());
  EXPECT_EQ(::poll(&state, 1, 0), 0) << "a dead session's kick must not wake for ever";
}

TEST_F(ListenerTest, HangingUpAllEndsEverySession) {
  const UniqueFd one = attach(), two = attach(), half = connect();
  settle();
  listener_->hang_up_all();
  EXPECT_TRUE(hung_up(one) && hung_up(two) && hung_up(half));
  EXPECT_TRUE(host_.open.empty());
  EXPECT_EQ(listener_->connections(), 0u);
}

TEST_F(ListenerTest, TheSocketIsForUserAndGroupOnly) {
  struct stat facts {};
  ASSERT_EQ(::stat(path_.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777u, 0660u);
}

TEST_F(ListenerTest, TheSocketsPathGoesWithTheListener) {
  listener_.reset();
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST(ListeningSocket, AStaleSocketIsReplacedButALiveOneIsNot) {
  const TempDir dir;
  const std::string path = dir / "s.sock";
  {
    const UniqueFd stale(::socket(AF_UNIX, SOCK_SEQPACKET, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path.c_str());
    ASSERT_EQ(::bind(stale.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  const Result<ListeningSocket> first = ListeningSocket::open(path, std::nullopt);
  ASSERT_TRUE(first.ok()) << first.status().text();
  const Result<ListeningSocket> second = ListeningSocket::open(path, std::nullopt);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), Code::kBusy);
}

TEST(ListeningSocket, AFileInItsPlaceIsKept) {
  const TempDir dir;
  std::ofstream(dir / "s.sock") << "precious";
  const Result<ListeningSocket> opened = ListeningSocket::open(dir / "s.sock", std::nullopt);
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.status().text().find("daemon.socket"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(dir / "s.sock"));
}

TEST(ListeningSocket, APathThatIsTooLongIsRefused) {
  const Result<ListeningSocket> opened =
      ListeningSocket::open("/tmp/" + std::string(120, 'x'), std::nullopt);
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.status().text().find("107"), std::string::npos);
}

}  // namespace
}  // namespace kvsidecar
