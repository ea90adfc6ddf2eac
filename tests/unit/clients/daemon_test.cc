// SPDX-License-Identifier: Apache-2.0
// Goal: the library and the real daemon agree on every request. Method: a kvsidecard of the test's
// own (its path comes as KVSIDECARD), a small pool, one engine; each call of the C ABI once, over
// shared and over staged memory, and over a daemon that is killed and started again.
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "tests/unit/clients/fixture.h"

namespace kvsidecar::testing {
namespace {

class RealDaemon : public ::testing::Test {
 protected:
  RealDaemon() {
    char name[] = "/tmp/kvsidecar-daemon-XXXXXX";
    folder = ::mkdtemp(name);
    static int pools = 0;
    pool = "client-test-" + std::to_string(::getpid()) + "-" + std::to_string(++pools);
    std::ofstream config(folder + "/kvsidecar.toml");
    config << "[daemon]\nruntime_dir = \"" << folder << "/run\"\nstate_dir = \"" << folder
           << "/state\"\n[host_pool]\nbytes = \"64MiB\"\nchunk_bytes = \"32MiB\"\n"
           << "span_bytes = \"4MiB\"\nname = \"" << pool
           << "\"\n[store]\nkind = \"file\"\nroot = \"" << folder
           << "/store\"\ncapacity_bytes = \"128MiB\"\nsegment_bytes = \"8MiB\"\n"
           << "[metrics]\nlisten = \"\"\n[[allow]]\nuid = " << ::getuid()
           << "\npermissions = [\"read\", \"put\", \"clear\", \"admin\"]\n";
    config.close();
    for (const char* sub : {"/run", "/state", "/store"})
      std::filesystem::create_directory(folder + sub);
    start();
  }
  ~RealDaemon() override {
    kill_daemon();
    std::filesystem::remove_all(folder);
    for (const auto& file : std::filesystem::directory_iterator("/dev/shm"))
      if (file.path().string().find(pool) != std::string::npos)
        std::filesystem::remove(file.path());
  }
  std::string socket() const { return folder + "/run/kvsidecar.sock"; }
  void start() {
    const std::string config = folder + "/kvsidecar.toml", log = folder + "/log";
    daemon = ::fork();
    if (daemon != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(out, 1);
    ::dup2(out, 2);
    ::execl(KVSIDECARD, "kvsidecard", "--no-supervisor", "--config", config.c_str(), nullptr);
    ::_exit(127);
  }
  void kill_daemon() {
    if (daemon <= 0) return;
    ::kill(daemon, SIGKILL);
    ::waitpid(daemon, nullptr, 0);
    daemon = 0;
  }
  std::string log() const {
    std::ifstream in(folder + "/log");
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void patient(kvs_options& options) { options.connect_timeout_ns = 10 * kSecond; }

  // The pool's memory comes in the background: until it is there, a put is BUSY.
  void await_pool(Engine& engine) {
    for (;;) {
      auto put = engine.client->put(engine.transfer(make_keys(1u << 30, 1), numbers(0, 1)));
      ASSERT_TRUE(put.ok()) << put.outcome().text();
      ASSERT_TRUE(put->wait().ok()) << put->text();
      if (put->items()[0] != KVS_BUSY) return;
      (void)::poll(nullptr, 0, 1);
    }
  }

  void round_trip(Engine& engine, uint32_t first, uint32_t pages) {
    for (uint32_t i = 0; i < pages; ++i) engine.fill(i, first + i);
    const auto keys = make_keys(first, pages);
    auto put = engine.client->put(engine.transfer(keys, numbers(0, pages)));
    ASSERT_TRUE(put.ok()) << put.outcome().text();
    ASSERT_TRUE(put->wait().ok()) << put->text();
    EXPECT_EQ(pages, put->succeeded()) << kvs_status_name(put->items()[0]);
    auto found = engine.client->lookup({.keys = client::keys(keys, kKeyBytes),
                                        .pools = {{engine.ns, KVS_ALL_PAGES, 0}},
                                        .lease_ms = 5000});
    ASSERT_TRUE(found.ok()) << found.outcome().text();
    ASSERT_TRUE(found->wait().ok()) << found->text();
    EXPECT_EQ(pages, found->longest());
    EXPECT_NE(0u, found->lease());
    const auto to = numbers(pages, pages);
    client::Transfer transfer = engine.transfer(keys, to);
    transfer.lease = found->lease();
    auto get = engine.client->get(transfer);
    ASSERT_TRUE(get.ok()) << get.outcome().text();
    ASSERT_TRUE(get->wait().ok()) << get->text();
    EXPECT_EQ(pages, get->succeeded());
    for (uint32_t i = 0; i < pages; ++i) ASSERT_TRUE(engine.holds(pages + i, first + i)) << i;
    auto released = engine.client->begin(
        [&](kvs_client* c, kvs_op* op) { return kvs_release(c, found->lease(), 0, op); });
    ASSERT_TRUE(released.ok());
    EXPECT_TRUE(released->wait().ok()) << released->text();
    auto nothing =
        engine.client->begin([](kvs_client* c, kvs_op* op) { return kvs_noop(c, 0, op); });
    ASSERT_TRUE(nothing.ok());
    EXPECT_TRUE(nothing->wait().ok()) << nothing->text();
  }

  std::string folder, pool;
  pid_t daemon = 0;
};

TEST_F(RealDaemon, ServesEveryCall) {
  Engine engine(socket(), 8192, false, patient);
  ASSERT_TRUE(engine.client) << log();
  await_pool(engine);
  round_trip(engine, 0, 1);
  round_trip(engine, 1000, 4000);
  const auto key = make_keys(0, 1);
  auto put = engine.client->put(engine.transfer(key, numbers(0, 1)));
  ASSERT_TRUE(put->wait().ok());
  EXPECT_EQ(KVS_EXISTS, put->items()[0]);
  for (const uint32_t what : {KVS_STAT_STATUS, KVS_STAT_NAMESPACES, KVS_STAT_SESSIONS}) {
    auto stat =
        engine.client->begin([&](kvs_client* c, kvs_op* op) { return kvs_stat(c, what, 0, op); });
    ASSERT_TRUE(stat->wait().ok()) << stat->text();
    EXPECT_TRUE(!stat->text().empty() && (stat->text().back() == '}' || stat->text().back() == ']'))
        << stat->text();
  }
  auto why = engine.client->begin([&](kvs_client* c, kvs_op* op) {
    return kvs_why(c, nullptr, key.data(), key.size(), 0, op);
  });
  ASSERT_TRUE(why->wait().ok()) << why->text();
  EXPECT_NE(std::string_view::npos, why->text().find('{'));

  const kvs_keys deleted = client::keys(key, kKeyBytes);
  auto gone = engine.client->begin(
      [&](kvs_client* c, kvs_op* op) { return kvs_delete(c, engine.ns, &deleted, 0, op); });
  ASSERT_TRUE(gone->wait().ok()) << gone->text();
  EXPECT_EQ(KVS_OK, gone->items()[0]);
  auto miss = engine.client->get(engine.transfer(key, numbers(0, 1)));
  ASSERT_TRUE(miss->wait().ok());
  EXPECT_EQ(KVS_MISS, miss->items()[0]);

  auto cleared = engine.client->begin(
      [&](kvs_client* c, kvs_op* op) { return kvs_clear(c, engine.ns, 0, op); });
  ASSERT_TRUE(cleared->wait().ok()) << cleared->text();
  EXPECT_EQ(2u, cleared->result().generation);
  const auto keys = make_keys(1000, 10);
  auto found = engine.client->lookup(
      {.keys = client::keys(keys, kKeyBytes), .pools = {{engine.ns, KVS_ALL_PAGES, 0}}});
  ASSERT_TRUE(found->wait().ok());
  EXPECT_EQ(0u, found->longest());
  EXPECT_EQ(KVS_OK, kvs_layout_unregister(engine.client->c(), engine.layout, 0));
  EXPECT_EQ(KVS_OK, kvs_region_unregister(engine.client->c(), engine.region, 0))
      << kvs_last_error();
}

TEST_F(RealDaemon, ALookupOfManyRecordsAndADurablePut) {
  Engine engine(socket(), 64, false, patient);
  ASSERT_TRUE(engine.client) << log();
  await_pool(engine);
  const auto keys = make_keys(0, 32);
  const auto from = numbers(0, 32);
  client::Transfer transfer = engine.transfer(keys, from);
  transfer.durable = true;
  auto put = engine.client->put(transfer);
  ASSERT_TRUE(put->wait().ok()) << put->text();
  EXPECT_EQ(32u, put->succeeded());
  const auto many = make_keys(0, 32768);
  auto found = engine.client->lookup(
      {.keys = client::keys(many, kKeyBytes), .pools = {{engine.ns, KVS_ALL_PAGES, 0}}});
  ASSERT_TRUE(found->wait().ok()) << found->text();
  EXPECT_EQ(32u, found->longest());
  EXPECT_EQ(KVS_PLACE_MISS, found->places()[32]);
}

TEST_F(RealDaemon, ServesMemoryThatCantBeShared) {
  Engine engine(socket(), 400, true, [](kvs_options& options) {
    patient(options);
    options.staging_bytes = 256 * 1024;
  });
  ASSERT_TRUE(engine.client) << log();
  await_pool(engine);
  round_trip(engine, 0, 200);
}

TEST_F(RealDaemon, AGetBehindAFenceWaitsAndMayBeLayered) {
  Engine engine(socket(), 4, false, patient);
  ASSERT_TRUE(engine.client) << log();
  await_pool(engine);
  round_trip(engine, 0, 2);
  kvs_fence fence = 0;
  ASSERT_EQ(KVS_OK, kvs_fence_create(engine.client->c(), &fence));
  engine.fill(2, 50);
  const auto keys = make_keys(0, 2);
  const auto to = numbers(2, 2);
  for (uint64_t round = 1; round <= 3; ++round) {
    client::Transfer transfer = engine.transfer(keys, to);
    transfer.fence = fence;
    transfer.fence_value = round;
    transfer.layered = true;
    auto get = engine.client->get(transfer);
    ASSERT_TRUE(get.ok()) << get.outcome().text();
    EXPECT_EQ(KVS_TIMEOUT, kvs_wait(engine.client->c(), get->id(), 1'000'000));
    EXPECT_EQ(0u, get->progress());
    ASSERT_EQ(KVS_OK, kvs_fence_signal(engine.client->c(), fence, round));
    ASSERT_TRUE(get->wait().ok()) << get->text();
    EXPECT_EQ(UINT64_MAX, get->progress());
    EXPECT_TRUE(engine.holds(2, 0) && engine.holds(3, 1));
  }
}

TEST_F(RealDaemon, AGetThatIsCancelledBehindItsFenceLeavesTheBlocksAlone) {
  Engine engine(socket(), 4, false, patient);
  ASSERT_TRUE(engine.client) << log();
  await_pool(engine);
  round_trip(engine, 0, 2);
  kvs_fence fence = 0;
  ASSERT_EQ(KVS_OK, kvs_fence_create(engine.client->c(), &fence));
  const auto keys = make_keys(0, 2);
  const auto to = numbers(2, 2);
  client::Transfer transfer = engine.transfer(keys, to);
  transfer.fence = fence;
  transfer.fence_value = 1;
  auto get = engine.client->get(transfer);
  ASSERT_TRUE(get.ok());
  uint8_t is_free[2] = {};
  ASSERT_TRUE(get->cancel(is_free).ok());
  EXPECT_TRUE(is_free[0] == 1 && is_free[1] == 1);
  engine.fill(2, 70);
  engine.fill(3, 71);
  ASSERT_EQ(KVS_OK, kvs_fence_signal(engine.client->c(), fence, 1));
  auto other = engine.client->get(engine.transfer(keys, numbers(0, 2)));
  ASSERT_TRUE(other->wait().ok());
  EXPECT_TRUE(engine.holds(2, 70) && engine.holds(3, 71));
}

TEST_F(RealDaemon, ADaemonThatWasStoppedNeverTouchesBlocksThatWereGivenBack) {
  Engine engine(socket(), 64, false, patient);
  ASSERT_TRUE(engine.client) << log();
  await_pool(engine);
  round_trip(engine, 0, 16);
  const auto stored = make_keys(0, 16), late = make_keys(5000, 16);
  const auto to = numbers(32, 16), from = numbers(48, 16);
  ::kill(daemon, SIGSTOP);
  client::Transfer get_args = engine.transfer(stored, to), put_args = engine.transfer(late, from);
  get_args.timeout_ns = put_args.timeout_ns = 50'000'000;
  auto get = engine.client->get(get_args);
  auto put = engine.client->put(put_args);
  ASSERT_TRUE(get.ok() && put.ok());
  EXPECT_EQ(KVS_TIMEOUT, get->wait().status());
  EXPECT_EQ(KVS_TIMEOUT, put->wait().status());
  for (uint32_t i = 0; i < 32; ++i) engine.fill(32 + i, 900 + i);  // given to somebody else
  ::kill(daemon, SIGCONT);
  auto found = engine.client->lookup(
      {.keys = client::keys(late, kKeyBytes), .pools = {{engine.ns, KVS_ALL_PAGES, 0}}});
  ASSERT_TRUE(found->wait().ok()) << found->text();
  for (const uint8_t place : found->places()) EXPECT_EQ(KVS_PLACE_MISS, place);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_TRUE(engine.holds(32 + i, 900 + i)) << i;
}

TEST_F(RealDaemon, AnEngineGoesOnWhenItsDaemonIsKilledAndStartedAgain) {
  Engine engine(socket(), 200, false, patient);
  ASSERT_TRUE(engine.client) << log();
  await_pool(engine);
  round_trip(engine, 0, 100);
  for (uint32_t round = 1; round <= 3; ++round) {
    kill_daemon();
    auto put = engine.client->put(engine.transfer(make_keys(5, 1), numbers(5, 1)));
    if (put.ok()) {
      EXPECT_FALSE(put->wait().ok());
    } else {
      EXPECT_EQ(KVS_UNAVAILABLE, put.outcome().status());
    }
    start();
    kvs_connection connection{};
    connection.struct_size = sizeof connection;
    do {
      ASSERT_EQ(KVS_OK, kvs_wait_connected(engine.client->c(), 30 * kSecond)) << log();
      ASSERT_EQ(KVS_OK, kvs_connection_get(engine.client->c(), &connection));
      (void)::poll(nullptr, 0, 1);
    } while (connection.connects != round + 1);
    const auto keys = make_keys(0, 100);
    auto found = engine.client->lookup(
        {.keys = client::keys(keys, kKeyBytes), .pools = {{engine.ns, KVS_ALL_PAGES, 0}}});
    ASSERT_TRUE(found.ok()) << found.outcome().text();
    ASSERT_TRUE(found->wait().ok()) << found->text();
    EXPECT_EQ(100u, found->longest()) << "the warm pool is adopted";
    auto get = engine.client->get(engine.transfer(keys, numbers(100, 100)));
    ASSERT_TRUE(get->wait().ok()) << get->text();
    EXPECT_EQ(100u, get->succeeded());
    for (uint32_t i = 0; i < 100; ++i) ASSERT_TRUE(engine.holds(100 + i, i)) << i;
  }
}

}  // namespace
}  // namespace kvsidecar::testing
