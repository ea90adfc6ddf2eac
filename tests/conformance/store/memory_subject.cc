// SPDX-License-Identifier: Apache-2.0
// The conformance suite on MemoryStore, in order and with every completion late.
#include "sidecar/store/memory_store.h"
#include "tests/conformance/store/store_subject.h"

namespace kvsidecar {
namespace {

class CountingRandom final : public Random {
 public:
  uint64_t next() override { return state_ = state_ * 6364136223846793005u + 1442695040888963407u; }

 private:
  uint64_t state_ = 42;
};

class MemorySubject final : public StoreSubject {
 public:
  explicit MemorySubject(uint32_t late) : late_(late), disk_(std::make_shared<MemoryDisk>()) {}
  std::unique_ptr<Store> open() override {
    MemoryStore::Options options;
    options.queue_capacity = 64;
    options.segment_bytes = 4 << 20;
    auto store = std::make_unique<MemoryStore>(disk_, options, random_);
    MemoryFaults faults;
    faults.late = late_;
    store->set_faults(faults);
    return store;
  }

 private:
  const uint32_t late_;
  std::shared_ptr<MemoryDisk> disk_;
  CountingRandom random_;
};

std::unique_ptr<StoreSubject> in_order() { return std::make_unique<MemorySubject>(0); }
std::unique_ptr<StoreSubject> late() { return std::make_unique<MemorySubject>(900); }

INSTANTIATE_TEST_SUITE_P(Memory, StoreConformance, testing::Values(&in_order, &late));

}  // namespace
}  // namespace kvsidecar
