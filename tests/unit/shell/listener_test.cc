// SPDX-License-Identifier: Apache-2.0
// Goal: a peer that dies, stalls or talks nonsense at any step of the handshake costs only its own
// connection, and what it held is given back. Method: real sockets, see listener_fixture.h.
#include <future>

#include "sidecar/shell/log_limiter.h"
#include "tests/unit/shell/listener_fixture.h"

namespace kvsidecar {
namespace {

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

TEST_F(ListenerTest, AFloodOfConnectionsKeepsATurnFromNobody) {
  std::vector<UniqueFd> flood;
  for (int i = 0; i < 40; ++i) flood.push_back(connect());
  listener_->step();
  EXPECT_EQ(listener_->half_open(), 16u);
  const auto refused = [&] {
    return std::count_if(flood.begin(), flood.end(), [](const UniqueFd& fd) {
      pollfd state{fd.get(), POLLIN, 0};
      return ::poll(&state, 1, 0) == 1;
    });
  };
  EXPECT_EQ(refused(), 0) << "a turn takes some, however many there are";
  settle();
  EXPECT_EQ(refused(), 24);
}

// The kernel closes what a socket still holds in the thread that closes the socket, and a
// descriptor's sender chooses how long that takes.
TEST_F(ListenerTest, DescriptorsBehindABadMessageAreDiscardedLikeThoseThatWereRead) {
  UniqueFd passed(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const linger an_hour{1, 3600};
  ASSERT_EQ(::setsockopt(passed.get(), SOL_SOCKET, SO_LINGER, &an_hour, sizeof an_hour), 0);
  const int sent[] = {passed.get()};
  const UniqueFd fd = connect();
  const std::byte bad{};
  say(fd, bytes_of(bad));
  EXPECT_TRUE(send_message(fd.get(), bytes_of(bad), sent).ok());
  settle();
  EXPECT_EQ(listener_->connections(), 0u);
  linger left{1, 1};
  socklen_t length = sizeof left;
  ASSERT_EQ(::getsockopt(passed.get(), SOL_SOCKET, SO_LINGER, &left, &length), 0);
  EXPECT_EQ(left.l_onoff, 0);
}

// Clients that come and go, or are refused, again and again: each cause of a line has its budget.
TEST_F(ListenerTest, AFloodOfClientsThatComeAndGoWritesAFewLines) {
  static std::map<std::string, uint32_t> lines;
  lines.clear();
  set_log_sink([](LogLevel, const std::string& line) { ++lines[line.substr(0, line.find(' '))]; },
               &clock_);
  for (int i = 0; i < 100; ++i) attach();  // and hangs up
  host_.room = 0;
  for (int i = 0; i < 100; ++i) {
    const UniqueFd refused = connect();
    say(refused, bytes_of(hello_of_this_version()));
    settle();
  }
  for (int i = 0; i < 100; ++i) {
    connect();
    settle();
  }
  EXPECT_EQ(lines.size(), 3u);
  for (const char* cause : {"session_opened", "session_refused", "handshake_ended"})
    EXPECT_EQ(lines[cause], kLinesPerWindow) << cause;
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

// O6-04: decided once, at the handshake, with both versions.
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

TEST_F(ListenerTest, ANameThatCouldForgeALogLineIsMadePrintable) {
  Hello hello = hello_of_this_version();
  std::strcpy(hello.name, "a\n\xff\"b c");
  const UniqueFd fd = connect();
  say(fd, bytes_of(hello));
  settle();
  hear_welcome(fd);
  say(fd, bytes_of(Ready{kReadyMagic}));
  settle();
  ASSERT_EQ(host_.open.size(), 1u);
  EXPECT_EQ(host_.open.begin()->second.name, "a???b c");
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

}  // namespace
}  // namespace kvsidecar
