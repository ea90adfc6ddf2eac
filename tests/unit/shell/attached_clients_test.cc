// SPDX-License-Identifier: Apache-2.0
// Goal: what an attached client sends over its socket reaches its session, and its end is seen,
// however it ends. Method: real sockets and processes, see listener_fixture.h.
#include <signal.h>
#include <sys/wait.h>

#include "tests/unit/shell/listener_fixture.h"

namespace kvsidecar {
namespace {

using AttachedClients = ListenerTest;

TEST_F(AttachedClients, ARegionsFdReachesTheSessionUnderItsToken) {
  const UniqueFd client = attach();
  Result<UniqueFd> memory = make_memfd("region", 4096);
  ASSERT_TRUE(memory.ok());
  ASSERT_TRUE(send_region_fd(client.get(), 42, memory->get()).ok());
  settle();
  EXPECT_EQ(host_.fds.count(42), 1u);
  EXPECT_EQ(host_.open.size(), 1u);
}

TEST_F(AttachedClients, TooManyWaitingFdsAnFdlessMessageOrAnUnknownOneEndsOnlyThatSession) {
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

TEST_F(AttachedClients, AClosedSocketEndsTheSession) {
  UniqueFd client = attach();
  client.reset();
  settle();
  EXPECT_TRUE(host_.open.empty());
  EXPECT_EQ(host_.gone.begin()->second, "hung_up");
}

TEST_F(AttachedClients, ADeadProcessEndsItsSessionThoughSomebodyElseHoldsTheSocket) {
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

TEST_F(AttachedClients, ASessionThatItsHostEndedIsHungUp) {
  const UniqueFd client = attach();
  host_.open.clear();
  clock_.advance_ns(10'000'000);
  settle();
  EXPECT_TRUE(hung_up(client));
  EXPECT_TRUE(host_.gone.empty());
}

TEST_F(AttachedClients, AKickWakesTheListenerOnceAndNotAfterTheSessionsEnd) {
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

TEST_F(AttachedClients, HangingUpAllEndsEverySession) {
  const UniqueFd one = attach(), two = attach(), half = connect();
  settle();
  listener_->hang_up_all();
  EXPECT_TRUE(hung_up(one) && hung_up(two) && hung_up(half));
  EXPECT_TRUE(host_.open.empty());
  EXPECT_EQ(listener_->connections(), 0u);
}

}  // namespace
}  // namespace kvsidecar
