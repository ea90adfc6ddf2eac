// SPDX-License-Identifier: Apache-2.0
// Goal: two sides that fit end with one working session; two that don't end with a sentence, within
// the deadline, and without a mapping.
// Method: the client's end against a daemon in a thread over a real listening socket, right and
// wrong in one thing each; check_hello on bytes.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include <functional>
#include <future>

#include "tests/unit/ipc/ipc_fixture.h"

namespace kvsidecar {
namespace {

constexpr std::array<std::byte, 16> kNode = {std::byte{1}, std::byte{2}, std::byte{3}};

uint64_t patience() { return monotonic_ns() + kPatienceNs; }

// A socket of its own in a folder of its own; `serve` runs on another thread for one client.
class Daemon {
 public:
  explicit Daemon(std::function<void(int socket)> serve) {
    char folder[] = "/tmp/kvsidecar-handshake-XXXXXX";
    KV_CHECK(::mkdtemp(folder) != nullptr);
    folder_ = folder;
    path_ = folder_ + "/s";
    listener_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    KV_CHECK(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    KV_CHECK(::listen(listener_.get(), 4) == 0);
    done_ = std::async(std::launch::async, [this, serve = std::move(serve)] {
      if (!wait_for(listener_.get())) return;
      const UniqueFd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      std::array<std::byte, 1024> buffer;
      std::vector<UniqueFd> fds;
      if (!wait_for(client.get()) || !receive_message(client.get(), buffer, fds, 0)) return;
      serve(client.get());
    });
  }
  ~Daemon() {
    done_.wait();
    ::unlink(path_.c_str());
    ::rmdir(folder_.c_str());
  }
  const std::string& path() const { return path_; }

 private:
  std::string folder_, path_;
  UniqueFd listener_;
  std::future<void> done_;
};

UniqueFd own_pidfd() {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
}

Welcome good_welcome() {
  Welcome welcome{};
  welcome.magic = kWelcomeMagic;
  welcome.bytes = sizeof welcome;
  welcome.protocol_major = kProtocolMajor;
  welcome.epoch = 7;
  welcome.session = 9;
  welcome.geometry = kSmallGeometry;
  return welcome;
}

// A daemon that sends this WELCOME with the fds of a session, after `spoil` has had both.
Status connect_to_spoiled(const std::function<void(Welcome&, std::vector<int>&)>& spoil) {
  SmallSession session;
  const UniqueFd pidfd = own_pidfd();
  Daemon daemon([&](int socket) {
    Welcome welcome = good_welcome();
    std::vector<int> fds = {session.share.submission_fd.get(), session.share.completion_fd.get(),
                            session.share.cells_fd.get(),      session.share.kick.get(),
                            session.share.notify.get(),        pidfd.get()};
    spoil(welcome, fds);
    ASSERT_TRUE(send_message(socket, std::as_bytes(std::span(&welcome, 1)), fds).ok());
    EXPECT_TRUE(wait_for(socket));  // READY or hang-up
  });
  return connect_to_daemon(daemon.path(), "test", patience()).status();
}

TEST(Handshake, EndsInASessionThatWorksBothWays) {
  Result<SessionShare> made = make_session_share(kSmallGeometry, 7, 9);
  ASSERT_TRUE(made.ok()) << made.status().text();
  const UniqueFd pidfd = own_pidfd();
  std::promise<uint64_t> ready_magic;
  Daemon daemon([&](int socket) {
    ASSERT_TRUE(send_welcome(socket, *made, 7, 9, kNode, pidfd.get()).ok());
    Ready ready{};
    std::vector<UniqueFd> fds;
    const auto got = receive_message(socket, std::as_writable_bytes(std::span(&ready, 1)), fds, 0);
    ready_magic.set_value(got.ok() && *got == sizeof ready ? ready.magic : 0);
  });
  auto connection = connect_to_daemon(daemon.path(), "test", patience());
  ASSERT_TRUE(connection.ok()) << connection.status().text();
  EXPECT_EQ(ready_magic.get_future().get(), kReadyMagic);
  EXPECT_EQ(connection->epoch, 7u);
  EXPECT_EQ(connection->session, 9u);
  EXPECT_EQ(connection->node, kNode);
  EXPECT_EQ(connection->daemon_pid, ::getpid());
  EXPECT_FALSE(pidfd_exited(connection->share.daemon_pid.get()));
  EXPECT_NE(::fcntl(connection->socket.get(), F_GETFD) & FD_CLOEXEC, 0);

  const SessionMemory client = connection->share.memory(), server = made->memory();
  SubmissionProducer producer(client);
  SubmissionConsumer consumer(server);
  ASSERT_TRUE(producer.push(RecordHead{.request = 5}, as_bytes("question")));
  producer.publish();
  std::vector<std::byte> payload(kRequestBytesMax);
  RecordHead head{};
  uint32_t length = 0;
  ASSERT_EQ(*consumer.pop(head, payload.data(), length), 1);
  EXPECT_EQ(as_text(Bytes(payload).first(length)), "question");
  CompletionProducer answers(server);
  CompletionConsumer reader(client);
  ASSERT_TRUE(*answers.reserve(1));
  answers.push(CompletionHead{.request = 5}, as_bytes("answer"));
  answers.publish();
  Bytes answer;
  ASSERT_NE(reader.peek(answer), nullptr);
  EXPECT_EQ(as_text(answer), "answer");
  reader.consume();
  EXPECT_EQ(server.cell_page().consumed.load(), 1u);
  client.claim(3)->store(8);
  EXPECT_EQ(server.claim(3)->load(), 8u);
  eventfd_signal(connection->share.kick.get());
  EXPECT_TRUE(wait_for(made->kick.get()));
}

TEST(Handshake, TheClientCantWriteTheCompletionMemory) {
  SmallSession session;
  EXPECT_FALSE(MappedMemory::map(session.share.completion_fd.get(), 0,
                                 completion_bytes(kSmallGeometry), Access::kReadWrite)
                   .ok());
}

TEST(Handshake, ARefusalCarriesItsCodeAndSentence) {
  Daemon daemon([](int socket) {
    send_refusal(socket, Status{Code::kDenied, "uid 7 isn't listed; add an [[allow]] entry"});
  });
  const Status status = connect_to_daemon(daemon.path(), "test", patience()).status();
  EXPECT_EQ(status.code(), Code::kDenied);
  EXPECT_EQ(status.text(), "uid 7 isn't listed; add an [[allow]] entry");
}

TEST(Handshake, ALongRefusalIsCutNotLost) {
  Daemon daemon([](int socket) { send_refusal(socket, invalid(std::string(1000, 'x'))); });
  EXPECT_EQ(connect_to_daemon(daemon.path(), "test", patience()).status().text(),
            std::string(255, 'x'));
}

TEST(Handshake, NobodyThereIsUnavailable) {
  expect_refused(connect_to_daemon("/tmp/kvsidecar-no-such-socket", "t", patience()).status(),
                 Code::kUnavailable, "No such file");
  expect_refused(connect_to_daemon(std::string(108, 'p'), "t", patience()).status(), Code::kInvalid,
                 "108 bytes");
}

TEST(Handshake, ADaemonThatHangsUpIsUnavailable) {
  Daemon daemon([](int) {});
  expect_refused(connect_to_daemon(daemon.path(), "test", patience()).status(), Code::kUnavailable,
                 "hung up");
}

TEST(Handshake, ADaemonThatNeverAnswersEndsWithTheDeadline) {
  std::promise<void> client_done;
  Daemon daemon([&](int) { client_done.get_future().wait(); });
  const uint64_t deadline_ns = monotonic_ns() + 50'000'000;
  expect_refused(connect_to_daemon(daemon.path(), "test", deadline_ns).status(), Code::kUnavailable,
                 "deadline");
  EXPECT_GE(monotonic_ns(), deadline_ns);
  client_done.set_value();
  expect_refused(connect_to_daemon(daemon.path(), "test", 1).status(), Code::kUnavailable,
                 "deadline");
}

TEST(Handshake, AWrongWelcomeIsRefusedByName) {
  struct Case {
    Code code;
    const char* word;
    std::function<void(Welcome&, std::vector<int>&)> spoil;
  };
  const Case cases[] = {
      {Code::kInvalid, "magic", [](Welcome& w, auto&) { w.magic = 1; }},
      {Code::kInvalid, "size", [](Welcome& w, auto&) { w.bytes = 3; }},
      {Code::kUnsupportedVersion, "2.5",
       [](Welcome& w, auto&) { w.protocol_major = 2, w.protocol_minor = 5; }},
      {Code::kInvalid, "5 fds", [](Welcome&, std::vector<int>& fds) { fds.pop_back(); }},
      {Code::kInvalid, "at most 6", [](Welcome&, std::vector<int>& fds) { fds.push_back(fds[0]); }},
      {Code::kInvalid, "submission_cells is 7",
       [](Welcome& w, auto&) { w.geometry.submission_cells = 7; }},
      {Code::kInvalid, "arena_blocks is 65",
       [](Welcome& w, auto&) { w.geometry.arena_blocks = 65; }},
      {Code::kInvalid, "submission memfd: size",
       [](Welcome& w, auto&) { w.geometry.arena_blocks = 3; }},
      {Code::kInvalid, "another session", [](Welcome& w, auto&) { w.session = 10; }},
      {Code::kInvalid, "another session", [](Welcome& w, auto&) { w.epoch = 8; }},
      {Code::kInvalid, "regular file", [](Welcome&, std::vector<int>& fds) { fds[0] = fds[3]; }},
  };
  const Status good = connect_to_spoiled([](Welcome&, auto&) {});
  ASSERT_TRUE(good.ok()) << good.text();
  for (const Case& c : cases) {
    SCOPED_TRACE(c.word);
    expect_refused(connect_to_spoiled(c.spoil), c.code, c.word);
  }
  EXPECT_EQ(connect_to_spoiled([](Welcome& w, auto&) { w.status = 99; }).code(), Code::kInternal);
}

TEST(Handshake, MemfdsThatAreNotSealedAreRefused) {
  const Geometry& g = kSmallGeometry;
  const size_t sizes[] = {submission_bytes(g), completion_bytes(g), cells_bytes(g)};
  for (size_t i = 0; i < 3; ++i) {
    auto unsealed = make_memfd("unsealed", sizes[i]);
    ASSERT_TRUE(unsealed.ok());
    expect_refused(
        connect_to_spoiled([&](Welcome&, std::vector<int>& fds) { fds[i] = unsealed->get(); }),
        Code::kInvalid, "seals");
  }
  // The completion memfd must be sealed against writers too.
  auto writable = make_sealed_memfd("writable", sizes[1]);
  expect_refused(connect_to_spoiled([&](Welcome&, std::vector<int>& fds) {
                   fds[kFdCompletion] = writable->get();
                 }),
                 Code::kInvalid, "completion memfd: seals");
}

Hello good_hello() {
  Hello hello{};
  hello.magic = kHelloMagic;
  hello.bytes = sizeof hello;
  hello.protocol_major = kProtocolMajor;
  std::memcpy(hello.name, "engine", 6);
  return hello;
}

TEST(Hello, OfThisVersionIsTaken) {
  const Hello sent = good_hello();
  Hello hello;
  ASSERT_TRUE(check_hello(std::as_bytes(std::span(&sent, 1)), hello).ok());
  EXPECT_STREQ(hello.name, "engine");
}

TEST(Hello, ThatIsWrongIsRefusedByName) {
  struct Case {
    Code code;
    const char* word;
    std::function<void(Hello&)> spoil;
  };
  const Case cases[] = {
      {Code::kInvalid, "magic", [](Hello& h) { h.magic ^= 1; }},
      {Code::kInvalid, "bytes is 95", [](Hello& h) { h.bytes = 95; }},
      {Code::kInvalid, "reserved is 3", [](Hello& h) { h.reserved = 3; }},
      {Code::kUnsupportedVersion, "protocol 2.0, this daemon 1.0",
       [](Hello& h) { h.protocol_major = 2; }},
      {Code::kUnsupportedVersion, "protocol 0.0", [](Hello& h) { h.protocol_major = 0; }}};
  for (const Case& c : cases) {
    Hello sent = good_hello(), hello;
    c.spoil(sent);
    expect_refused(check_hello(std::as_bytes(std::span(&sent, 1)), hello), c.code, c.word);
  }
}

TEST(Hello, CutShortAnywhereIsRefused) {
  const Hello sent = good_hello();
  const auto bytes = std::as_bytes(std::span(&sent, 1));
  Hello hello;
  for (size_t cut = 0; cut < bytes.size(); ++cut) {
    EXPECT_EQ(check_hello(bytes.first(cut), hello).code(), Code::kInvalid) << cut;
  }
  std::vector<std::byte> longer(bytes.begin(), bytes.end());
  longer.resize(bytes.size() + 8);
  expect_refused(check_hello(longer, hello), Code::kInvalid, "104 bytes");
}

TEST(Hello, OfALaterMinorVersionMayBeLonger) {
  Hello sent = good_hello(), hello;
  sent.protocol_minor = kProtocolMinor + 1;
  EXPECT_TRUE(check_hello(std::as_bytes(std::span(&sent, 1)), hello).ok());
  sent.bytes = sizeof sent + 8;
  std::vector<std::byte> longer(sizeof sent + 8);
  std::memcpy(longer.data(), &sent, sizeof sent);
  EXPECT_TRUE(check_hello(longer, hello).ok());
}

TEST(Hello, ItsNameIsMadeFitForALog) {
  Hello sent = good_hello(), hello;
  std::memset(sent.name, 'a', sizeof sent.name);
  sent.name[1] = '\n';
  sent.name[2] = '\x1b';
  ASSERT_TRUE(check_hello(std::as_bytes(std::span(&sent, 1)), hello).ok());
  EXPECT_EQ(std::string(hello.name), "a??" + std::string(44, 'a'));
}

TEST(SessionShare, AnImpossibleGeometryIsRefusedByField) {
  const std::pair<const char*, std::function<void(Geometry&)>> cases[] = {
      {"submission_cells is 12", [](Geometry& g) { g.submission_cells = 12; }},
      {"completion_cells is 2048", [](Geometry& g) { g.completion_cells = 2048; }},
      {"arena_blocks is 0", [](Geometry& g) { g.arena_blocks = 0; }},
      {"fences is 0", [](Geometry& g) { g.fences = 0; }},
      {"claims is 65", [](Geometry& g) { g.claims = 65; }},
      {"progress_words is 1025", [](Geometry& g) { g.progress_words = 1025; }}};
  for (const auto& [word, spoil] : cases) {
    Geometry geometry = kSmallGeometry;
    spoil(geometry);
    expect_refused(make_session_share(geometry, 1, 1).status(), Code::kInvalid, word);
  }
  EXPECT_TRUE(make_session_share(kDefaultGeometry, 1, 1).ok());
}

TEST(RegionFd, TravelsUnderItsToken) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd a(ends[0]), b(ends[1]);
  auto memory = make_sealed_memfd("region", 8192);
  ASSERT_TRUE(send_region_fd(a.get(), 123, memory->get()).ok());
  FdMessage message{};
  std::vector<UniqueFd> fds;
  const auto got = receive_message(b.get(), std::as_writable_bytes(std::span(&message, 1)), fds, 1);
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(*got, sizeof message);
  EXPECT_EQ(message.magic, kFdMagic);
  EXPECT_EQ(message.token, 123u);
  ASSERT_EQ(fds.size(), 1u);
  EXPECT_EQ(file_facts(fds[0].get())->bytes, 8192u);
}

}  // namespace
}  // namespace kvsidecar
