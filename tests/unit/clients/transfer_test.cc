// SPDX-License-Identifier: Apache-2.0
// Goal: what is put comes back, whatever its memory, its number of items and its way to be waited
// for. Method: the library against a peer that speaks the real rings with a small geometry (128
// claim words, 64 credits), so that lists are split and queued.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cstring>
#include <thread>

#include "tests/unit/clients/fixture.h"

namespace kvsidecar::testing {
namespace {

class ClientTransfer : public ::testing::Test {
 protected:
  ClientTransfer() : peer(folder.socket(), knobs) { peer.start(); }
  ~ClientTransfer() override { peer.stop(); }

  TemporaryFolder folder;
  Knobs knobs;
  Peer peer;
};

void put_look_up_get(Engine& engine, uint32_t pages) {
  for (uint32_t i = 0; i < pages; ++i) engine.fill(i, i);
  const auto keys = make_keys(0, pages);
  auto put = engine.client->put(engine.transfer(keys, numbers(0, pages)));
  ASSERT_TRUE(put.ok()) << put.outcome().text();
  ASSERT_TRUE(put->wait().ok());
  EXPECT_EQ(pages, put->succeeded());
  auto found = engine.client->lookup(
      {.keys = client::keys(keys, kKeyBytes), .pools = {{engine.ns, KVS_ALL_PAGES, 0}}});
  ASSERT_TRUE(found.ok()) << found.outcome().text();
  ASSERT_TRUE(found->wait().ok());
  EXPECT_EQ(pages, found->longest());
  EXPECT_TRUE(found->restorable(1) && found->restorable(pages));
  EXPECT_FALSE(found->restorable(pages + 1));
  EXPECT_EQ(pages, found->places().size());
  auto get = engine.client->get(engine.transfer(keys, numbers(pages, pages)));
  ASSERT_TRUE(get.ok()) << get.outcome().text();
  ASSERT_TRUE(get->wait().ok());
  EXPECT_EQ(pages, get->succeeded());
  for (uint32_t i = 0; i < pages; ++i) ASSERT_TRUE(engine.holds(pages + i, i)) << "page " << i;
}

TEST_F(ClientTransfer, APageThatWasPutIsFoundAndComesBack) {
  Engine engine(folder.socket(), 2);
  put_look_up_get(engine, 1);
}

TEST_F(ClientTransfer, MoreItemsThanClaimWordsAreSplitAndQueuedInvisibly) {
  Engine engine(folder.socket(), 10'000);
  put_look_up_get(engine, 5000);
  uint32_t puts = 0;
  for (const Seen& seen : peer.seen()) puts += seen.type == RecordType::kPut ? 1 : 0;
  EXPECT_GE(puts, 5000u / 128);
}

TEST_F(ClientTransfer, ALookupOf32768KeysIsOneAnswer) {
  Engine engine(folder.socket(), 2);
  const auto keys = make_keys(0, 32768);
  auto found = engine.client->lookup(
      {.keys = client::keys(keys, kKeyBytes), .pools = {{engine.ns, KVS_ALL_PAGES, 0}}});
  ASSERT_TRUE(found.ok()) << found.outcome().text();
  ASSERT_TRUE(found->wait().ok()) << found->text();
  EXPECT_EQ(0u, found->longest());
  EXPECT_EQ(32768u, found->places().size());
}

TEST_F(ClientTransfer, MoreMemoryThanThereIsIsRefusedBeforeAnyIsTaken) {
  Engine engine(folder.socket(), 2);
  // Were it taken, it would end here and not with the machine's last page.
  rlimit before{};
  ASSERT_EQ(0, ::getrlimit(RLIMIT_FSIZE, &before));
  const rlimit little{1 << 20, before.rlim_max};
  ASSERT_EQ(0, ::setrlimit(RLIMIT_FSIZE, &little));
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  kvs_memory memory{};
  memory.struct_size = sizeof memory;
  kvs_region region = 0;
  const kvs_status status =
      kvs_memory_create(engine.client->c(), uint64_t{1} << 50, kSecond, &memory, &region);
  ::signal(SIGXFSZ, handler);
  ASSERT_EQ(0, ::setrlimit(RLIMIT_FSIZE, &before));
  EXPECT_EQ(KVS_INVALID, status);
  EXPECT_EQ(0u, region);
  for (const char* part : {"bytes 1125899906842624", "MemAvailable", "ask for less"})
    EXPECT_NE(nullptr, std::strstr(kvs_last_error(), part)) << part << ": " << kvs_last_error();
}

TEST_F(ClientTransfer, MemoryThatCantBeSharedGoesThroughStaging) {
  Engine engine(folder.socket(), 2000, true,
                [](kvs_options& options) { options.staging_bytes = 64 * 1024; });
  put_look_up_get(engine, 1000);
}

TEST_F(ClientTransfer, AStagedPutWaitsForItsFence) {
  Engine engine(folder.socket(), 2, true);
  kvs_fence fence = 0;
  ASSERT_EQ(KVS_OK, kvs_fence_create(engine.client->c(), &fence));
  const auto keys = make_keys(0, 1);
  const auto at = numbers(0, 1);
  client::Transfer transfer = engine.transfer(keys, at);
  transfer.fence = fence;
  transfer.fence_value = 3;
  auto put = engine.client->put(transfer);
  ASSERT_TRUE(put.ok());
  engine.fill(0, 99);  // the kernel that the fence stands for
  ASSERT_EQ(KVS_OK, kvs_fence_signal(engine.client->c(), fence, 3));
  ASSERT_TRUE(put->wait().ok());
  auto get = engine.client->get(engine.transfer(keys, numbers(1, 1)));
  ASSERT_TRUE(get->wait().ok());
  EXPECT_TRUE(engine.holds(1, 99));
}

TEST_F(ClientTransfer, ItemsMayBeRunLists) {
  Engine engine(folder.socket(), 4);
  engine.fill(0, 5);
  engine.fill(1, 6);
  const auto keys = make_keys(0, 2);
  const kvs_run runs[] = {
      {engine.region, 0, 4096}, {engine.region, 4096, 1000}, {engine.region, 5096, 3096}};
  const uint32_t counts[] = {1, 2};
  client::Transfer transfer{.ns = engine.ns, .keys = client::keys(keys, kKeyBytes)};
  transfer.items.runs = runs;
  transfer.items.run_counts = counts;
  auto put = engine.client->put(transfer);
  ASSERT_TRUE(put.ok()) << put.outcome().text();
  ASSERT_TRUE(put->wait().ok());
  EXPECT_EQ(2u, put->succeeded());
  auto get = engine.client->get(engine.transfer(keys, numbers(2, 2)));
  ASSERT_TRUE(get->wait().ok());
  EXPECT_TRUE(engine.holds(2, 5) && engine.holds(3, 6));
}

TEST_F(ClientTransfer, AnEnginesOwnFileIsTakenSealedOrNot) {
  Engine engine(folder.socket(), 1);
  for (const bool sealed : {false, true}) {
    UniqueFd fd = make_memfd("engine", 8192).take();
    if (sealed) {
      ASSERT_TRUE(seal(fd.get(), false).ok());
    }
    void* base = ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    ASSERT_NE(MAP_FAILED, base);
    kvs_region region = 0;
    EXPECT_EQ(sealed ? KVS_INVALID : KVS_OK,
              kvs_region_register_fd(engine.client->c(), fd.get(), 0, 8192, base, KVS_ECHO_AUTO, 0,
                                     &region))
        << kvs_last_error();
    if (sealed) {
      EXPECT_NE(nullptr, std::strstr(kvs_last_error(), "echo_offset"));
    } else {
      EXPECT_EQ(KVS_OK, kvs_region_unregister(engine.client->c(), region, 0));
    }
    EXPECT_EQ(KVS_OK,
              kvs_region_register_fd(engine.client->c(), fd.get(), 0, 8192, base, 8184, 0, &region))
        << kvs_last_error();
    EXPECT_EQ(KVS_OK, kvs_region_unregister(engine.client->c(), region, 0));
    ::munmap(base, 8192);
  }
}

TEST_F(ClientTransfer, AnAddressThatIsNotTheFileIsRefused) {
  Engine engine(folder.socket(), 1);
  UniqueFd fd = make_memfd("engine", 8192).take();
  alignas(4096) static std::byte other[8192];
  kvs_region region = 0;
  EXPECT_EQ(KVS_STALE_MAPPING, kvs_region_register_fd(engine.client->c(), fd.get(), 0, 8192, other,
                                                      KVS_ECHO_AUTO, 0, &region));
  EXPECT_EQ(KVS_STALE_MAPPING,
            kvs_region_register_fd(engine.client->c(), fd.get(), 0, 8192, other, 0, 0, &region));
  EXPECT_EQ(0u, region);
}

TEST_F(ClientTransfer, ARegionInUseByALayoutStays) {
  Engine engine(folder.socket(), 1);
  EXPECT_EQ(KVS_BUSY, kvs_region_unregister(engine.client->c(), engine.region, 0));
  EXPECT_EQ(KVS_OK, kvs_layout_unregister(engine.client->c(), engine.layout, 0));
  EXPECT_EQ(KVS_OK, kvs_region_unregister(engine.client->c(), engine.region, 0));
}

TEST_F(ClientTransfer, TheEventFdTellsOfAnswersAndPollReportsEachOnce) {
  Engine engine(folder.socket(), 2);
  kvs_client* c = engine.client->c();
  const int fd = engine.client->event_fd();
  pollfd wait{fd, POLLIN, 0};
  const auto keys = make_keys(0, 1);
  auto put = engine.client->put(engine.transfer(keys, numbers(0, 1)));
  ASSERT_TRUE(put.ok());
  kvs_event events[4];
  size_t count = 0;
  while (count == 0) {
    ASSERT_EQ(1, ::poll(&wait, 1, 20'000));
    count = kvs_poll(c, events, 4);
  }
  ASSERT_EQ(1u, count);
  EXPECT_EQ(put->id(), events[0].op);
  EXPECT_EQ(uint32_t{KVS_EVENT_FINISHED}, events[0].kind);
  EXPECT_EQ(0u, kvs_poll(c, events, 4));
  EXPECT_EQ(0, ::poll(&wait, 1, 0));
}

TEST_F(ClientTransfer, MoreEventsThanAskedForKeepTheEventFdReadable) {
  Engine engine(folder.socket(), 2);
  kvs_client* c = engine.client->c();
  pollfd wait{engine.client->event_fd(), POLLIN, 0};
  const auto keys = make_keys(0, 1);
  auto one = engine.client->put(engine.transfer(keys, numbers(0, 1)));
  auto two = engine.client->put(engine.transfer(keys, numbers(0, 1)));
  auto three = engine.client->put(engine.transfer(keys, numbers(0, 1)));
  ASSERT_TRUE(three->wait().ok());
  std::vector<kvs_op> seen;
  kvs_event event;
  while (seen.size() < 2) {
    ASSERT_EQ(1, ::poll(&wait, 1, 20'000));
    if (kvs_poll(c, &event, 1) == 1) seen.push_back(event.op);
  }
  EXPECT_EQ((std::vector<kvs_op>{one->id(), two->id()}), seen);
  EXPECT_EQ(0u, kvs_poll(c, &event, 1)) << "an operation that was waited for is not reported";
}

TEST_F(ClientTransfer, ATextOfManyPiecesComesWhole) {
  Engine engine(folder.socket(), 1);
  auto one = engine.client->begin(
      [](kvs_client* c, kvs_op* op) { return kvs_stat(c, KVS_STAT_STATUS, 0, op); });
  auto two = engine.client->begin(
      [](kvs_client* c, kvs_op* op) { return kvs_stat(c, KVS_STAT_STATUS, 0, op); });
  ASSERT_TRUE(one->wait().ok() && two->wait().ok());
  const std::string expected = "{\"filler\":\"" + std::string(9000, 'x') + "\"}";
  EXPECT_EQ(expected, one->text());
  EXPECT_EQ(expected, two->text());
}

// O2-05
TEST_F(ClientTransfer, OneClientServesManyThreads) {
  Engine engine(folder.socket(), 8);
  std::vector<std::thread> threads;
  std::atomic<uint32_t> right{0};
  for (uint32_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const std::vector<uint32_t> from{2 * t}, to{2 * t + 1};
      for (uint32_t round = 0; round < 50; ++round) {
        const uint32_t number = t * 1000 + round;
        const auto keys = make_keys(number, 1);
        engine.fill(2 * t, number);
        auto put = engine.client->put(engine.transfer(keys, from));
        if (!put.ok() || !put->wait().ok()) return;
        auto get = engine.client->get(engine.transfer(keys, to));
        if (!get.ok() || !get->wait().ok()) return;
        if (engine.holds(2 * t + 1, number)) ++right;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(200u, right);
}

// O11-06
TEST_F(ClientTransfer, BadArgumentsNameTheFieldAndBeginNothing) {
  Engine engine(folder.socket(), 2);
  const auto keys = make_keys(0, 1);
  const size_t before = peer.seen().size();
  auto refuse = [&](client::Transfer transfer, const char* field) {
    auto put = engine.client->put(transfer);
    EXPECT_FALSE(put.ok());
    EXPECT_NE(std::string::npos, put.outcome().text().find(field)) << put.outcome().text();
  };
  const auto at = numbers(0, 1);
  client::Transfer transfer = engine.transfer(keys, at);
  transfer.keys.key_bytes = 65;
  refuse(transfer, "key_bytes");
  transfer = engine.transfer(keys, at);
  transfer.keys.count = 0;
  refuse(transfer, "count");
  refuse(engine.transfer(keys, numbers(2, 1)), "blocks");
  transfer = engine.transfer(keys, at);
  transfer.ns = 12345;
  refuse(transfer, "namespace");
  transfer = engine.transfer(keys, at);
  transfer.items.layout = 12345;
  refuse(transfer, "layout");
  transfer = engine.transfer(keys, at);
  transfer.fence = 7;
  refuse(transfer, "fence");
  EXPECT_EQ(before, peer.seen().size());
}

TEST_F(ClientTransfer, OperationsThatAreNotFreedAreBounded) {
  Engine engine(folder.socket(), 1, false,
                [](kvs_options& options) { options.operations_max = 2; });
  const auto keys = make_keys(0, 1);
  auto one = engine.client->put(engine.transfer(keys, numbers(0, 1)));
  auto two = engine.client->put(engine.transfer(keys, numbers(0, 1)));
  auto three = engine.client->put(engine.transfer(keys, numbers(0, 1)));
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ(KVS_BUSY, three.outcome().status());
}

}  // namespace
}  // namespace kvsidecar::testing
