// SPDX-License-Identifier: Apache-2.0
// Goal: an engine outlives its daemon. Method: peers come late, go and come again, refuse, clear
// namespaces meanwhile; the same ids must work again, and a forked child must touch nothing.
#include <poll.h>
#include <sys/wait.h>

#include <atomic>
#include <cstring>
#include <string_view>

#include "tests/unit/clients/fixture.h"

namespace kvsidecar::testing {
namespace {

kvs_options quick(const std::string& socket) {
  kvs_options options{};
  options.struct_size = sizeof options;
  options.socket_path = socket.c_str();
  options.connect_timeout_ns = 50'000'000;
  options.default_timeout_ns = 20 * kSecond;
  return options;
}

// O6-05
TEST(ClientOpen, WithoutADaemonIsUnavailableInTime) {
  TemporaryFolder folder;
  const std::string socket = folder.socket();
  const kvs_options options = quick(socket);
  kvs_client* client = nullptr;
  EXPECT_EQ(KVS_UNAVAILABLE, kvs_open(&options, &client));
  EXPECT_EQ(nullptr, client);
  EXPECT_NE(nullptr, std::strstr(kvs_last_error(), socket.c_str())) << kvs_last_error();
}

TEST(ClientOpen, ARefusalIsToldAtOnce) {
  TemporaryFolder folder;
  Knobs knobs;
  knobs.refuses = true;
  Peer peer(folder.socket(), knobs);
  peer.start();
  const std::string socket = folder.socket();
  kvs_options options = quick(socket);
  options.connect_timeout_ns = 60 * kSecond;
  kvs_client* client = nullptr;
  EXPECT_EQ(KVS_DENIED, kvs_open(&options, &client));
  EXPECT_STREQ("uid is not listed", kvs_last_error());
}

TEST(ClientOpen, ADaemonThatHasNoTimeForAHandshakeIsAskedAgain) {
  TemporaryFolder folder;
  Knobs knobs;
  knobs.busy_for = 3;
  Peer peer(folder.socket(), knobs);
  peer.start();
  const std::string socket = folder.socket();
  kvs_options options = quick(socket);
  options.connect_timeout_ns = 60 * kSecond;
  kvs_client* client = nullptr;
  ASSERT_EQ(KVS_OK, kvs_open(&options, &client)) << kvs_last_error();
  EXPECT_EQ(0, knobs.busy_for);
  kvs_close(client, 0);
}

TEST(ClientOpen, AnEngineThatGoesOnWithoutHearsTheRefusalOnceAndDoesntWaitForAnother) {
  TemporaryFolder folder;
  Knobs knobs;
  knobs.refuses = true;
  Peer peer(folder.socket(), knobs);
  peer.start();
  const std::string socket = folder.socket();
  struct Told {
    std::atomic<int> refusals{0}, others{0};
  } told;
  kvs_options options = quick(socket);
  options.allow_disconnected = 1;
  options.connect_timeout_ns = 3600 * kSecond;  // of the test's own time limit nothing is left
  options.log_context = &told;
  options.log = [](void* context, int level, const char* text) {
    auto& count = *static_cast<Told*>(context);
    const bool names = std::string_view(text) == "not connected: uid is not listed";
    ++(level == KVS_LOG_WARNING && names ? count.refusals : count.others);
  };
  kvs_client* c = nullptr;
  ASSERT_EQ(KVS_OK, kvs_open(&options, &c));
  EXPECT_EQ(0, kvs_connected(c));
  // It goes on asking: as soon as the daemon takes it, it is there.
  knobs.refuses = false;
  ASSERT_EQ(KVS_OK, kvs_wait_connected(c, 20 * kSecond));
  EXPECT_EQ(KVS_OK, kvs_close(c, 0));
  EXPECT_EQ(1, told.refusals);
  EXPECT_EQ(0, told.others);
}

TEST(ClientOpen, AnEngineThatStartsFirstIsServedWhenTheDaemonComes) {
  TemporaryFolder folder;
  const std::string socket = folder.socket();
  kvs_options options = quick(socket);
  options.allow_disconnected = 1;
  kvs_client* c = nullptr;
  ASSERT_EQ(KVS_OK, kvs_open(&options, &c));
  EXPECT_EQ(0, kvs_connected(c));
  kvs_memory memory{};
  memory.struct_size = sizeof memory;
  kvs_region region = 0;
  EXPECT_EQ(KVS_UNAVAILABLE, kvs_memory_create(c, 8192, 0, &memory, &region));
  ASSERT_NE(0u, region);
  const kvs_layout_run run{region, 0, 4096, 4096};
  kvs_layout layout = 0;
  EXPECT_EQ(KVS_UNAVAILABLE, kvs_layout_register(c, 2, &run, 1, 0, &layout));
  const kvs_part part{{0, 0, 0, 0}, 4096};
  const kvs_namespace_fields in = fields(part);
  kvs_attach_args args{};
  args.struct_size = sizeof args;
  args.fields = &in;
  kvs_namespace ns = 0;
  EXPECT_EQ(KVS_UNAVAILABLE, kvs_attach(c, &args, &ns));
  ASSERT_NE(0u, ns);

  Knobs knobs;
  Peer peer(socket, knobs);
  peer.start();
  ASSERT_EQ(KVS_OK, kvs_wait_connected(c, 20 * kSecond));
  const auto keys = make_keys(0, 1);
  const uint32_t block = 0;
  kvs_transfer_args put{};
  put.struct_size = sizeof put;
  put.ns = ns;
  put.keys = client::keys(keys, kKeyBytes);
  put.items = client::blocks(layout, {&block, 1});
  kvs_op op = 0;
  ASSERT_EQ(KVS_OK, kvs_put(c, &put, &op)) << kvs_last_error();
  EXPECT_EQ(KVS_OK, kvs_wait(c, op, UINT64_MAX));
  EXPECT_EQ(1u, peer.pages());
  EXPECT_EQ(KVS_OK, kvs_close(c, 0));
}

class ClientReconnect : public ::testing::Test {
 protected:
  void restart(Engine& engine, std::unique_ptr<Peer>& peer) {
    kvs_connection before{}, after{};
    before.struct_size = after.struct_size = sizeof before;
    ASSERT_EQ(KVS_OK, kvs_connection_get(engine.client->c(), &before));
    peer.reset();
    peer = std::make_unique<Peer>(folder.socket(), knobs);
    peer->start();
    do {
      ASSERT_EQ(KVS_OK, kvs_wait_connected(engine.client->c(), 20 * kSecond));
      ASSERT_EQ(KVS_OK, kvs_connection_get(engine.client->c(), &after));
      (void)::poll(nullptr, 0, 1);
    } while (after.connects == before.connects);
  }
  std::unique_ptr<Peer> make_peer() {
    auto peer = std::make_unique<Peer>(folder.socket(), knobs);
    peer->start();
    return peer;
  }

  TemporaryFolder folder;
  Knobs knobs;
};

TEST_F(ClientReconnect, RegionsLayoutsAndNamespacesWorkAgainAndMemoryIsUntouched) {
  for (const bool staged : {false, true}) {
    std::unique_ptr<Peer> peer = make_peer();
    Engine engine(folder.socket(), 4, staged);
    for (uint32_t i = 0; i < 4; ++i) engine.fill(i, 10 + i);
    restart(engine, peer);
    for (uint32_t i = 0; i < 4; ++i)
      EXPECT_TRUE(engine.holds(i, 10 + i)) << "the echo must not touch the engine's bytes";
    auto put = engine.client->put(engine.transfer(make_keys(0, 2), numbers(0, 2)));
    ASSERT_TRUE(put.ok()) << put.outcome().text();
    ASSERT_TRUE(put->wait().ok()) << put->text();
    EXPECT_EQ(2u, put->succeeded());
    auto get = engine.client->get(engine.transfer(make_keys(0, 2), numbers(2, 2)));
    ASSERT_TRUE(get->wait().ok());
    EXPECT_TRUE(engine.holds(2, 10) && engine.holds(3, 11));
  }
}

TEST_F(ClientReconnect, AFenceKeepsItsValue) {
  std::unique_ptr<Peer> peer = make_peer();
  Engine engine(folder.socket(), 2);
  kvs_fence fence = 0;
  ASSERT_EQ(KVS_OK, kvs_fence_create(engine.client->c(), &fence));
  ASSERT_EQ(KVS_OK, kvs_fence_signal(engine.client->c(), fence, 41));
  restart(engine, peer);
  const auto keys = make_keys(0, 1);
  const auto at = numbers(0, 1);
  client::Transfer transfer = engine.transfer(keys, at);
  transfer.fence = fence;
  transfer.fence_value = 41;
  auto put = engine.client->put(transfer);
  ASSERT_TRUE(put.ok()) << put.outcome().text();
  EXPECT_TRUE(put->wait().ok());
}

TEST_F(ClientReconnect, ANamespaceThatSomebodyClearedMeanwhileIsStaleUntilItsOwnClear) {
  std::unique_ptr<Peer> peer = make_peer();
  Engine engine(folder.socket(), 2);
  ++knobs.generation;
  restart(engine, peer);
  auto put = engine.client->put(engine.transfer(make_keys(0, 1), numbers(0, 1)));
  EXPECT_EQ(KVS_STALE_NAMESPACE, put.outcome().status());
  auto cleared = engine.client->begin(
      [&](kvs_client* c, kvs_op* op) { return kvs_clear(c, engine.ns, 0, op); });
  ASSERT_TRUE(cleared.ok()) << cleared.outcome().text();
  ASSERT_TRUE(cleared->wait().ok());
  EXPECT_EQ(3u, cleared->result().generation);
  auto again = engine.client->put(engine.transfer(make_keys(0, 1), numbers(0, 1)));
  ASSERT_TRUE(again.ok()) << again.outcome().text();
  EXPECT_TRUE(again->wait().ok());
}

TEST_F(ClientReconnect, WithoutReconnectTheClientStaysUnavailable) {
  std::unique_ptr<Peer> peer = make_peer();
  Engine engine(folder.socket(), 1, false, [](kvs_options& options) { options.no_reconnect = 1; });
  knobs.frozen = true;
  auto put = engine.client->put(engine.transfer(make_keys(0, 1), numbers(0, 1)));
  peer.reset();
  EXPECT_EQ(KVS_UNAVAILABLE, put->wait().status());
  knobs.frozen = false;
  peer = make_peer();
  EXPECT_EQ(KVS_UNAVAILABLE, kvs_wait_connected(engine.client->c(), 100'000'000));
}

TEST_F(ClientReconnect, AForkedChildIsDeadAndTheParentGoesOn) {
  std::unique_ptr<Peer> peer = make_peer();
  Engine engine(folder.socket(), 2);
  const auto keys = make_keys(0, 1);
  const pid_t child = ::fork();
  if (child == 0) {
    auto put = engine.client->put(engine.transfer(keys, numbers(0, 1)));
    const bool told = put.outcome().status() == KVS_UNAVAILABLE &&
                      put.outcome().text().find("fork") != std::string::npos;
    const bool dead = kvs_connected(engine.client->c()) == 0 &&
                      kvs_event_fd(engine.client->c()) == -1 &&
                      kvs_close(engine.client->c(), 0) == KVS_UNAVAILABLE;
    ::_exit(told && dead ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(child, ::waitpid(child, &status, 0));
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  auto put = engine.client->put(engine.transfer(keys, numbers(0, 1)));
  ASSERT_TRUE(put.ok());
  EXPECT_TRUE(put->wait().ok());
}

}  // namespace
}  // namespace kvsidecar::testing
