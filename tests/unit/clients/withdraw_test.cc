// SPDX-License-Identifier: Apache-2.0
// Goal: blocks come back without the daemon's help, and never while somebody may still write them.
// Method: a peer that is frozen (takes nothing), or claims and then neither copies nor answers; the
// statuses, the claims and what is reported free are compared with what the header promises.
#include <algorithm>
#include <csignal>

#include <poll.h>
#include <sys/wait.h>

#include "tests/unit/clients/fixture.h"

namespace kvsidecar::testing {
namespace {

constexpr uint64_t kSoonNs = 30'000'000;

class ClientWithdraw : public ::testing::Test {
 protected:
  ClientWithdraw() : peer(folder.socket(), knobs) { peer.start(); }
  ~ClientWithdraw() override { peer.stop(); }
  // Waits until the peer has seen a record of that type.
  void await_seen(RecordType type) {
    for (;;) {
      for (const Seen& seen : peer.seen())
        if (seen.type == type) return;
      (void)::poll(nullptr, 0, 1);
    }
  }

  TemporaryFolder folder;
  Knobs knobs;
  Peer peer;
};

TEST_F(ClientWithdraw, AGetThatNobodyTakesIsRevokedAtItsDeadline) {
  Engine engine(folder.socket(), 4);
  knobs.frozen = true;
  const auto keys = make_keys(0, 2);
  const auto at = numbers(0, 2);
  client::Transfer transfer = engine.transfer(keys, at);
  transfer.timeout_ns = kSoonNs;
  auto get = engine.client->get(transfer);
  ASSERT_TRUE(get.ok());
  EXPECT_EQ(KVS_TIMEOUT, get->wait().status());
  for (const uint8_t item : get->items()) EXPECT_EQ(KVS_TIMEOUT, item);
  // The peer goes on and finds the claims revoked: no byte of the blocks changes.
  engine.fill(0, 1);
  knobs.frozen = false;
  auto again = engine.client->get(engine.transfer(keys, numbers(2, 2)));
  ASSERT_TRUE(again->wait().ok());
  EXPECT_TRUE(engine.holds(0, 1));
}

// O8-03: asking what has finished is a look into shared memory: no record goes to the daemon.
TEST_F(ClientWithdraw, PollingSendsNothingHoweverManyOperationsAreInFlight) {
  Engine engine(folder.socket(), 16);
  knobs.holds_copies = true;
  std::vector<client::Op> flying;
  for (const uint32_t in_flight : {0u, 1u, 16u}) {
    while (flying.size() < in_flight) {
      const auto number = static_cast<uint32_t>(flying.size());
      const auto keys = make_keys(number, 1);
      const auto at = numbers(number, 1);
      auto put = engine.client->put(engine.transfer(keys, at));
      ASSERT_TRUE(put.ok());
      flying.push_back(std::move(*put));
    }
    const auto puts_seen = [this] {
      const std::vector<Seen> seen = peer.seen();
      return std::count_if(seen.begin(), seen.end(),
                           [](const Seen& one) { return one.type == RecordType::kPut; });
    };
    while (puts_seen() < in_flight) (void)::poll(nullptr, 0, 1);
    const size_t before = peer.seen().size();
    kvs_event event;
    for (int i = 0; i < 1000; ++i) EXPECT_EQ(0u, kvs_poll(engine.client->c(), &event, 1));
    // A record sent by then would have been seen before this one.
    const auto key = make_keys(0, 1);
    auto marker =
        engine.client->lookup({.keys = client::keys(key, kKeyBytes), .pools = {{engine.ns, 0, 0}}});
    ASSERT_TRUE(marker.ok() && marker->wait().ok());
    EXPECT_EQ(before + 1, peer.seen().size()) << in_flight << " in flight";
  }
}

TEST_F(ClientWithdraw, ACancelledPutIsFreeAtOnce) {
  Engine engine(folder.socket(), 2);
  knobs.frozen = true;
  auto put = engine.client->put(engine.transfer(make_keys(0, 2), numbers(0, 2)));
  ASSERT_TRUE(put.ok());
  uint8_t is_free[2] = {0, 0};
  ASSERT_TRUE(put->cancel(is_free).ok());
  EXPECT_EQ(1, is_free[0] + 0);
  EXPECT_EQ(1, is_free[1] + 0);
  EXPECT_EQ(KVS_REVOKED, put->wait(1).status());
  for (const uint8_t item : put->items()) EXPECT_EQ(KVS_REVOKED, item);
  knobs.frozen = false;
  auto found = engine.client->lookup(
      {.keys = client::keys(make_keys(0, 2), kKeyBytes), .pools = {{engine.ns, KVS_ALL_PAGES, 0}}});
  ASSERT_TRUE(found->wait().ok());
  EXPECT_EQ(0u, found->longest());
}

TEST_F(ClientWithdraw, APutThatIsBeingCopiedIsAbandonedAndItsBlocksAreFree) {
  Engine engine(folder.socket(), 1);
  knobs.holds_copies = true;
  auto put = engine.client->put(engine.transfer(make_keys(0, 1), numbers(0, 1)));
  ASSERT_TRUE(put.ok());
  await_seen(RecordType::kPut);
  uint8_t is_free = 0;
  ASSERT_TRUE(put->cancel(&is_free).ok());
  EXPECT_EQ(1, is_free + 0);
  EXPECT_EQ(KVS_REVOKED, put->wait(1).status());
  EXPECT_EQ(KVS_ABANDONED, put->items()[0]);
}

TEST_F(ClientWithdraw, SingleItemsCanBeRevokedAndTheOthersGoOn) {
  Engine engine(folder.socket(), 4);
  for (uint32_t i = 0; i < 3; ++i) engine.fill(i, i);
  const auto keys = make_keys(0, 3);
  knobs.frozen = true;
  auto put = engine.client->put(engine.transfer(keys, numbers(0, 3)));
  ASSERT_TRUE(put.ok());
  const uint32_t middle = 1;
  uint8_t is_free = 0;
  ASSERT_EQ(KVS_OK, kvs_revoke(engine.client->c(), put->id(), &middle, 1, &is_free));
  EXPECT_EQ(1, is_free + 0);
  engine.fill(1, 77);
  knobs.frozen = false;
  ASSERT_TRUE(put->wait().ok());
  EXPECT_EQ(KVS_OK, put->items()[0]);
  EXPECT_EQ(KVS_REVOKED, put->items()[1]);
  EXPECT_EQ(KVS_OK, put->items()[2]);
  EXPECT_EQ(2u, peer.pages());
}

TEST_F(ClientWithdraw, AStagedGetIsFreeAtOnceEvenWhileItIsCopied) {
  Engine engine(folder.socket(), 1, true);
  engine.fill(0, 3);
  knobs.holds_copies = true;
  auto get = engine.client->get(engine.transfer(make_keys(0, 1), numbers(0, 1)));
  ASSERT_TRUE(get.ok());
  await_seen(RecordType::kGet);
  uint8_t is_free = 0;
  ASSERT_TRUE(get->cancel(&is_free).ok());
  EXPECT_EQ(1, is_free + 0);
  EXPECT_EQ(KVS_REVOKED, get->wait(1).status());
  EXPECT_TRUE(engine.holds(0, 3));
}

// A get of page 0 whose copy outlives its deadline and a cancel.
client::Expected<client::Op> overdue_get(Engine& engine, uint32_t block) {
  const auto keys = make_keys(0, 1);
  const auto at = numbers(block, 1);
  client::Transfer transfer = engine.transfer(keys, at);
  transfer.timeout_ns = kSoonNs;
  auto get = engine.client->get(transfer);
  if (!get.ok()) return get;
  kvs_event event{};
  while (kvs_poll(engine.client->c(), &event, 1) == 0) (void)::poll(nullptr, 0, 1);
  EXPECT_EQ(uint32_t{KVS_EVENT_OVERDUE}, event.kind);
  uint8_t is_free = 9;
  EXPECT_TRUE(get->cancel(&is_free).ok());
  EXPECT_EQ(0, is_free + 0) << "the peer is writing these blocks";
  return get;
}

TEST(ClientDeath, AGetThatIsBeingCopiedWaitsForTheDaemonsDeath) {
  TemporaryFolder folder;
  Knobs knobs;
  knobs.holds_copies = true;
  const pid_t child = Peer::serve_in_child(folder.socket(), knobs);
  ASSERT_NE(0, child);
  {
    Engine engine(folder.socket(), 1);
    auto get = overdue_get(engine, 0);
    ASSERT_TRUE(get.ok());
    EXPECT_EQ(KVS_BUSY, kvs_op_free(engine.client->c(), get->id()));
    ::kill(child, SIGSTOP);
    EXPECT_EQ(KVS_TIMEOUT, kvs_wait(engine.client->c(), get->id(), kSoonNs));
    ::kill(child, SIGKILL);
    EXPECT_EQ(KVS_UNAVAILABLE, get->wait().status());
    EXPECT_EQ(KVS_UNAVAILABLE, get->items()[0]);
    auto put = engine.client->put(engine.transfer(make_keys(0, 1), numbers(0, 1)));
    EXPECT_EQ(KVS_UNAVAILABLE, put.outcome().status());
  }
  ::waitpid(child, nullptr, 0);
  ::unlink(folder.socket().c_str());
}

// A completion is only a message: the claim says who may touch the blocks.
TEST(ClientDeath, ACompletionFreesNothingThatIsStillBeingCopied) {
  TemporaryFolder folder;
  Knobs knobs;
  knobs.answers_early = true;
  const pid_t child = Peer::serve_in_child(folder.socket(), knobs);
  ASSERT_NE(0, child);
  {
    Engine engine(folder.socket(), 2);
    const auto keys = make_keys(0, 1);
    auto put = engine.client->put(engine.transfer(keys, numbers(0, 1)));
    ASSERT_TRUE(put.ok());
    EXPECT_EQ(KVS_OK, put->wait().status());
    EXPECT_EQ(KVS_ABANDONED, put->items()[0]);
    auto get = overdue_get(engine, 1);
    ASSERT_TRUE(get.ok());
    ::kill(child, SIGKILL);
    EXPECT_EQ(KVS_UNAVAILABLE, get->wait().status());
  }
  ::waitpid(child, nullptr, 0);
  ::unlink(folder.socket().c_str());
}

TEST(ClientDeath, EverythingElseEndsUnavailableWhenTheDaemonDies) {
  TemporaryFolder folder;
  Knobs knobs;
  const pid_t child = Peer::serve_in_child(folder.socket(), knobs);
  ASSERT_NE(0, child);
  {
    Engine engine(folder.socket(), 4);
    ::kill(child, SIGSTOP);
    auto put = engine.client->put(engine.transfer(make_keys(0, 1), numbers(0, 1)));
    auto get = engine.client->get(engine.transfer(make_keys(0, 1), numbers(1, 1)));
    auto found = engine.client->lookup({.keys = client::keys(make_keys(0, 1), kKeyBytes),
                                        .pools = {{engine.ns, KVS_ALL_PAGES, 0}}});
    ASSERT_TRUE(put.ok() && get.ok() && found.ok());
    ::kill(child, SIGKILL);
    EXPECT_EQ(KVS_UNAVAILABLE, put->wait().status());
    EXPECT_EQ(KVS_UNAVAILABLE, get->wait().status());
    EXPECT_EQ(KVS_UNAVAILABLE, found->wait().status());
  }
  ::waitpid(child, nullptr, 0);
  ::unlink(folder.socket().c_str());
}

TEST(ClientDeath, WhileTheClientRegistersAgainEndsNothingButTheConnection) {
  TemporaryFolder folder;
  Knobs knobs;
  const pid_t child = Peer::serve_in_child(folder.socket(), knobs);
  ASSERT_NE(0, child);
  {
    Engine engine(folder.socket(), 1);
    ::kill(child, SIGSTOP);
    kvs_memory memory{};
    memory.struct_size = sizeof memory;
    kvs_region region = 0;
    for (int i = 0; i < 2; ++i)  // from now on the library tries to register them by itself
      EXPECT_EQ(KVS_UNAVAILABLE,
                kvs_memory_create(engine.client->c(), 4096, kSoonNs, &memory, &region));
    const auto keys = make_keys(0, 1);
    const auto at = numbers(0, 1);
    client::Transfer transfer = engine.transfer(keys, at);
    transfer.timeout_ns = kSoonNs;
    EXPECT_EQ(KVS_TIMEOUT, engine.client->put(transfer)->wait().status());  // it has begun to
    ::kill(child, SIGKILL);
    auto put = engine.client->put(engine.transfer(make_keys(0, 1), numbers(0, 1)));
    EXPECT_EQ(KVS_UNAVAILABLE, put.ok() ? put->wait().status() : put.outcome().status());
    EXPECT_NE(KVS_OK, kvs_wait_connected(engine.client->c(), kSoonNs));
  }
  ::waitpid(child, nullptr, 0);
  ::unlink(folder.socket().c_str());
}

}  // namespace
}  // namespace kvsidecar::testing
