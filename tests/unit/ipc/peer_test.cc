// SPDX-License-Identifier: Apache-2.0
// Goal: messages arrive whole with their fds or not at all, no fd leaks from a refused one, and a
// peer's identity and death are seen.
// Method: socket pairs and forked children; a leaked fd shows as a pipe that never hangs up.
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>

#include "tests/unit/ipc/ipc_fixture.h"

namespace kvsidecar {
namespace {

struct Pair {
  UniqueFd a, b;
  explicit Pair(int flags = 0) {
    int ends[2];
    KV_CHECK(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0, ends) == 0);
    a.reset(ends[0]);
    b.reset(ends[1]);
  }
};

struct Pipe {
  UniqueFd in, out;
  Pipe() {
    int ends[2];
    KV_CHECK(::pipe2(ends, O_CLOEXEC) == 0);
    in.reset(ends[0]);
    out.reset(ends[1]);
  }
};

TEST(Messages, CarryBytesAndFds) {
  Pair pair;
  Pipe pipe;
  const int sent[] = {pipe.out.get(), pipe.in.get()};
  ASSERT_TRUE(send_message(pair.a.get(), as_bytes("hello"), sent).ok());
  std::array<std::byte, 64> buffer;
  std::vector<UniqueFd> fds;
  const auto got = receive_message(pair.b.get(), buffer, fds, 2);
  ASSERT_TRUE(got.ok()) << got.status().text();
  EXPECT_EQ(as_text(Bytes(buffer).first(*got)), "hello");
  ASSERT_EQ(fds.size(), 2u);
  for (const UniqueFd& fd : fds) EXPECT_NE(::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, 0);
  ASSERT_EQ(::write(fds[0].get(), "x", 1), 1);
  char c = 0;
  EXPECT_EQ(::read(pipe.in.get(), &c, 1), 1);
}

TEST(Messages, WithMoreFdsThanAskedAreRefusedAndClosed) {
  for (const size_t count : {size_t{2}, size_t{32}}) {
    Pair pair;
    Pipe pipe;
    const std::vector<int> sent(count, pipe.out.get());
    ASSERT_TRUE(send_message(pair.a.get(), as_bytes("hello"), sent).ok());
    std::array<std::byte, 64> buffer;
    std::vector<UniqueFd> fds;
    expect_refused(receive_message(pair.b.get(), buffer, fds, 1).status(), Code::kInvalid, "fds");
    EXPECT_TRUE(fds.empty());
    pipe.out.reset();
    EXPECT_TRUE(wait_for(pipe.in.get()));  // hang-up: nobody holds the other end any more
  }
}

TEST(Messages, ASocketThatWouldLingerAtItsCloseNoLongerDoes) {
  Pair pair;
  UniqueFd passed(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const linger an_hour{1, 3600};
  ASSERT_EQ(::setsockopt(passed.get(), SOL_SOCKET, SO_LINGER, &an_hour, sizeof an_hour), 0);
  const int sent[] = {passed.get()};
  ASSERT_TRUE(send_message(pair.a.get(), as_bytes("hello"), sent).ok());
  std::array<std::byte, 64> buffer;
  std::vector<UniqueFd> fds;
  ASSERT_TRUE(receive_message(pair.b.get(), buffer, fds, 1).ok());
  linger left{1, 1};
  socklen_t length = sizeof left;
  ASSERT_EQ(::getsockopt(fds[0].get(), SOL_SOCKET, SO_LINGER, &left, &length), 0);
  EXPECT_EQ(left.l_onoff, 0);
}

// Also behind an empty message, which reads like the end.
TEST(Messages, ThatNobodyReadKeepNobodyWhoClosesTheirSocket) {
  Pair pair;
  UniqueFd passed(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const linger an_hour{1, 3600};
  ASSERT_EQ(::setsockopt(passed.get(), SOL_SOCKET, SO_LINGER, &an_hour, sizeof an_hour), 0);
  Pipe pipe;
  const int sent[] = {passed.get(), pipe.out.get()};
  ASSERT_TRUE(send_message(pair.a.get(), as_bytes("bad"), {}).ok());
  ASSERT_TRUE(send_message(pair.a.get(), {}, {}).ok());
  ASSERT_TRUE(send_message(pair.a.get(), as_bytes("hello"), sent).ok());
  pipe.out.reset();
  close_peer_socket(std::move(pair.b));
  EXPECT_TRUE(wait_for(pipe.in.get()));  // closed, in whichever thread
  linger left{1, 1};
  socklen_t length = sizeof left;
  ASSERT_EQ(::getsockopt(passed.get(), SOL_SOCKET, SO_LINGER, &left, &length), 0);
  EXPECT_EQ(left.l_onoff, 0) << "it was closed as it came: that can take as long as it lingers";
}

TEST(Messages, LongerThanTheBufferAreRefusedAndTheirFdsClosed) {
  Pair pair;
  Pipe pipe;
  const int sent[] = {pipe.out.get()};
  ASSERT_TRUE(send_message(pair.a.get(), as_bytes("much too long"), sent).ok());
  std::array<std::byte, 4> buffer;
  std::vector<UniqueFd> fds;
  expect_refused(receive_message(pair.b.get(), buffer, fds, 1).status(), Code::kInvalid, "longer");
  pipe.out.reset();
  EXPECT_TRUE(wait_for(pipe.in.get()));
}

TEST(Messages, NothingThereIsBusyAndHangUpIsZero) {
  Pair pair(SOCK_NONBLOCK);
  std::array<std::byte, 4> buffer;
  std::vector<UniqueFd> fds;
  EXPECT_EQ(receive_message(pair.b.get(), buffer, fds, 1).status().code(), Code::kBusy);
  pair.a.reset();
  const auto got = receive_message(pair.b.get(), buffer, fds, 1);
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(*got, 0u);
  EXPECT_EQ(send_message(pair.b.get(), as_bytes("x"), {}).code(), Code::kUnavailable);
}

TEST(PeerIdentity, IsThisProcessOverASocketPair) {
  Pair pair;
  const auto identity = peer_identity(pair.a.get());
  ASSERT_TRUE(identity.ok()) << identity.status().text();
  EXPECT_EQ(identity->pid, ::getpid());
  EXPECT_EQ(identity->uid, ::geteuid());
  EXPECT_EQ(identity->gid, ::getegid());
  std::vector<gid_t> groups(static_cast<size_t>(::getgroups(0, nullptr)));
  ASSERT_GE(::getgroups(static_cast<int>(groups.size()), groups.data()), 0);
  std::vector<uint32_t> mine(groups.begin(), groups.end()), theirs = identity->groups;
  std::sort(mine.begin(), mine.end());
  std::sort(theirs.begin(), theirs.end());
  EXPECT_EQ(theirs, mine);
  Pipe pipe;
  EXPECT_FALSE(peer_identity(pipe.in.get()).ok());
}

TEST(Pidfd, FiresWhenTheProcessIsKilled) {
  Pair pair;
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  auto pidfd = open_pidfd(child);
  ASSERT_TRUE(pidfd.ok()) << pidfd.status().text();
  EXPECT_NE(::fcntl(pidfd->get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_FALSE(pidfd_exited(pidfd->get()));
  ::kill(child, SIGKILL);
  EXPECT_TRUE(wait_for(pidfd->get()));
  EXPECT_TRUE(pidfd_exited(pidfd->get()));
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(open_pidfd(child).status().code(), Code::kUnavailable);
}

TEST(Pidfd, OfASocketsPeerIsItsProcess) {
  Pair pair;
  auto pidfd = peer_pidfd(pair.a.get(), ::getpid());
  ASSERT_TRUE(pidfd.ok()) << pidfd.status().text();
  EXPECT_FALSE(pidfd_exited(pidfd->get()));
}

TEST(Pidfd, APidOfAnotherNamespaceIsRefusedByName) {
  expect_refused(open_pidfd(0).status(), Code::kInvalid, "pid namespace");
}

}  // namespace
}  // namespace kvsidecar
