// SPDX-License-Identifier: Apache-2.0
// A daemon over a store in memory that a test can hold, break and look into, and short words for
// what an engine does with single pages.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "sidecar/store/memory_store.h"
#include "tests/support/engine.h"

namespace kvsidecar::testing {

// Passes everything on to a MemoryStore and remembers what it was asked.
class SpyStore final : public Store {
 public:
  SpyStore(std::shared_ptr<MemoryDisk> disk, const MemoryStore::Options& options, Random& random)
      : store(std::move(disk), options, random) {}
  bool submit(StoreCommand&& command) override {
    if (refuse) return false;
    ops.push_back(command.op);
    if (command.op == StoreOp::kWrite)
      written.push_back(static_cast<uint8_t>(command.record->key[0]));
    const auto swapped = swap_reads.find(command.location.slot);
    if (command.op == StoreOp::kRead && swapped != swap_reads.end())
      command.location.slot = swapped->second;
    return store.submit(std::move(command));
  }
  bool poll(StoreDone& done) override { return store.poll(done); }
  bool has_done() const override { return store.has_done(); }
  std::string describe() const override { return store.describe(); }
  uint64_t used_bytes() const override { return store.used_bytes(); }
  bool step() override { return store.step(); }
  bool has_work() override { return store.has_work(); }
  size_t count(StoreOp op) const {
    return static_cast<size_t>(std::count(ops.begin(), ops.end(), op));
  }

  MemoryStore store;
  std::vector<StoreOp> ops;
  std::vector<int> written;  // first byte of each written page's key: the number of key_of()
  std::map<uint32_t, uint32_t> swap_reads;  // slot -> slot of the same segment
  bool refuse = false;                      // as a full queue does
};

class Rig : public ::testing::Test {
 protected:
  void TearDown() override {  // a node ends when nothing is in flight any more
    if (spy != nullptr) spy->store.set_faults({});
  }

  static constexpr uint64_t kPage = 64 * 1024;

  // Options are set before. `scan`: finds what is in the store, as every daemon does at its start.
  void start(bool scan = true) {
    if (with_store) spy = std::make_unique<SpyStore>(disk, store_options, random);
    options.store = spy.get();
    node = std::make_unique<Node>(options, remains, clock, random, faults);
    if (!scan) return;
    node->conductor().scan_store();
    ASSERT_TRUE(node->settle());
  }
  // The daemon goes in order; its engines must be gone. What it leaves: pool, records, disk.
  void stop() {
    if (spy != nullptr) spy->store.set_faults({});
    node.reset();
    spy.reset();
    ++options.epoch;
  }
  void lose_memory() { remains.chunk = {}; }
  // Changes one byte of the page of `key` in the memory that was left.
  void rot(uint64_t key) {
    std::vector<std::byte> page(kPage);
    fill_page(page, key);
    const auto at =
        std::search(remains.chunk.begin(), remains.chunk.end(), page.begin(), page.begin() + 64);
    ASSERT_NE(at, remains.chunk.end());
    at[1000] ^= std::byte{1};
  }

  std::unique_ptr<Engine> engine(const NamespaceFields& fields = fields_of(kPage),
                                 AttachRequest attach = {}, Permissions allowed = everything()) {
    auto made = std::make_unique<Engine>(*node, clock, 4ull << 20, std::move(allowed));
    made->set_up(fields, 32, attach);
    return made;
  }
  Code put(Engine& e, uint64_t key, bool durable = false) {
    return e.wait(begin_put(e, key, durable)).items[0];
  }
  uint64_t begin_put(Engine& e, uint64_t key, bool durable = false) {
    fill_page(e.block(0), key);
    PutRequest request;
    request.durable = durable;
    return e.put(request, {key}, e.layout, {0});
  }
  Code get(Engine& e, uint64_t key, uint32_t block = 1) {
    return e.wait(e.get({}, {key}, e.layout, {block})).items[0];
  }
  Place place(Engine& e, uint64_t key) {
    return static_cast<Place>(e.wait(e.lookup({}, {key})).places[0]);
  }
  Code erase(Engine& e, uint64_t key) {
    const std::vector<std::byte> bytes = key_of(key);
    return e.wait(e.send(RecordType::kDelete, DeleteRequest{e.space, {Bytes(bytes), 32}})).items[0];
  }
  // Puts pages nobody asks for, until `key` has left the host pool.
  void evict(Engine& e, uint64_t key) {
    for (uint64_t filler = 100; filler < 220; ++filler) {
      ASSERT_TRUE(is_success(put(e, filler)));
      ASSERT_TRUE(node->settle());
      if (filler % 20 == 19 && place(e, key) != Place::kHost) return;
    }
    FAIL() << "key " << key << " is still in the host pool";
  }
  void set_store_faults(const MemoryFaults& broken) { spy->store.set_faults(broken); }
  uint64_t count(const Counter Counters::*counter) const {
    return (node->conductor().counters().*counter).value();
  }

  NodeOptions options{.pool_bytes = 1 << 20, .limits = {.store_capacity_bytes = 1ull << 40}};
  MemoryStore::Options store_options;
  bool with_store = true;
  FakeClock clock;
  SeededRandom random{1};
  PlannedFaults faults;
  NodeRemains remains;
  std::shared_ptr<MemoryDisk> disk = std::make_shared<MemoryDisk>();
  std::unique_ptr<SpyStore> spy;
  std::unique_ptr<Node> node;
};

}  // namespace kvsidecar::testing
