// SPDX-License-Identifier: Apache-2.0
// Exact or miss, after a start over a harmed pool (adoption_input.h): a daemon fills its pool and
// ends, bytes of it are changed, exchanged and zeroed, some with their checks made right; the next
// daemon adopts it. Each get gives the bytes that were put or leaves the engine's memory as it is,
// puts work again, and nothing is left when the engines have gone.
#include <cstring>

#include "sidecar/pool/span_table.h"
#include "tests/fuzz/adoption_input.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/sim/invariants.h"
#include "tests/support/engine.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace kvsidecar::fuzz {
namespace {

using testing::Engine;

constexpr uint64_t kSpanBytes = 64 * 1024, kPoolBytes = 8 * kSpanBytes;
constexpr uint64_t kKeys = 5, kOther = 999;
constexpr uint64_t kPageBytes[] = {4'096, 20'000};  // of each namespace

std::unique_ptr<Engine> attach(testing::Node& node, testing::FakeClock& clock, size_t space) {
  auto engine = std::make_unique<Engine>(node, clock, 4 * kPageBytes[space]);
  engine->set_up(testing::fields_of(kPageBytes[space], 1, space == 0 ? "kv" : "swa"), 4);
  return engine;
}

void fill_pool(testing::Node& node, testing::FakeClock& clock) {
  for (size_t space = 0; space < 2; ++space) {
    const auto engine = attach(node, clock, space);
    for (uint64_t key = 1; key <= kKeys; ++key) {
      testing::fill_page(engine->block(1), key, space);
      require(engine->wait(engine->put({}, {key}, engine->layout, {1})).items.at(0) == Code::kOk,
              "a page is put");
    }
    engine->die();
  }
  node.settle();
}

class Harmer {
 public:
  explicit Harmer(std::span<std::byte> chunk) : chunk_(chunk), nonce_(*decode_label(chunk)) {}

  void harm(const Harm& h) {
    const size_t at = h.at % chunk_.size(), from = h.from % chunk_.size();
    const size_t count = std::min<size_t>(h.count, chunk_.size() - std::max(at, from));
    switch (static_cast<HarmKind>(h.kind % static_cast<uint8_t>(HarmKind::kKinds))) {
      case HarmKind::kByte:
        chunk_[at] = std::byte{h.value};
        return;
      case HarmKind::kBytes:
        std::memmove(&chunk_[at], &chunk_[from], count);
        return;
      case HarmKind::kZero:
        std::memset(&chunk_[at], 0, std::min<size_t>(h.count, chunk_.size() - at));
        return;
      case HarmKind::kHeader: {
        std::byte* const span = &chunk_[at / kSpanBytes * kSpanBytes];
        const uint64_t check = XXH3_64bits_withSeed(span, 56, nonce_);
        std::memcpy(span + 56, &check, 8);
        return;
      }
      default:
        return slot(h);
    }
  }

 private:
  void slot(const Harm& h) {
    const auto number = static_cast<uint32_t>(h.at % (kPoolBytes / kSpanBytes));
    const auto run = chunk_.subspan(number * kSpanBytes);
    const auto table = decode_span_table(run, {kSpanBytes, number, nonce_});
    if (!table.ok() || !table->has_value()) return;
    const uint32_t slot = h.from % (*table)->layout.slots;
    TableWriter writer(7);
    if (h.kind % static_cast<uint8_t>(HarmKind::kKinds) == static_cast<uint8_t>(HarmKind::kState)) {
      if (h.value % 3 == 0) writer.set_filling(run.data(), (*table)->shape, slot);
      if (h.value % 3 == 1) writer.set_free(run.data(), (*table)->shape, slot);
      if (h.value % 3 == 2) run[entry_offset((*table)->shape, slot)] = std::byte{h.value};
      return;
    }
    SlotEntry entry = decode_entry(run, **table, slot);
    if (!entry.record) return;
    change(*entry.record, h);
    if (kEntryHeadBytes + record_bytes(*entry.record) <= (*table)->shape.entry_bytes)
      writer.set_full(run.data(), (*table)->shape, slot, *entry.record);
  }

  static void change(PageRecord& record, const Harm& h) {
    switch (h.count % 7) {
      case 0:
        record.hash.low ^= h.value;
        return;
      case 1:
        record.namespace_id.high ^= h.value;
        return;
      case 2:
        record.generation = h.value;
        return;
      case 3:
        record.page_bytes = std::max<uint64_t>(1, record.page_bytes - h.value);
        return;
      case 4:
        record.part_digests.resize(1 + h.value % 3);
        return;
      case 5:
        record.part_digests[0] ^= h.value;
        return;
      default:
        record.key[h.value % record.key.size()] ^= std::byte{1};
    }
  }

  std::span<std::byte> chunk_;
  const uint64_t nonce_;
};

void use_pages(testing::Node& node, testing::FakeClock& clock, bool harmed) {
  for (size_t space = 0; space < 2; ++space) {
    const auto engine = attach(node, clock, space);
    const auto get = [&](uint64_t key) {
      testing::fill_page(engine->block(2), kOther);
      const testing::Answer got = engine->wait(engine->get({}, {key}, engine->layout, {2}));
      const bool ok = got.status() == Code::kOk && got.items.at(0) == Code::kOk;
      require(testing::holds_page(engine->block(2), ok ? key : kOther, ok ? space : 0),
              "a get is exact or leaves memory as it is");
      return ok;
    };
    for (uint64_t key = 1; key <= kKeys; ++key)
      require(get(key) || harmed, "without harm all pages are found again");
    for (uint64_t key = 1; key <= kKeys; ++key) {
      testing::fill_page(engine->block(1), key, space);
      const testing::Answer put = engine->wait(engine->put({}, {key}, engine->layout, {1}));
      if (put.status() == Code::kOk && put.items.at(0) == Code::kOk)
        require(get(key), "what was put just now is got");
    }
  }
}

void run(FuzzInput in) {
  const uint8_t options = in.take<uint8_t>();
  testing::FakeClock clock;
  testing::SeededRandom random(1);
  testing::NodeRemains remains;
  sim::Scenario plan;
  plan.node.pool_bytes = kPoolBytes;
  plan.node.span_bytes = kSpanBytes;
  plan.node.inline_copies = (options & kInline) != 0;
  {
    testing::Node first(plan.node, remains, clock, random);
    fill_pool(first, clock);
  }
  const bool harmed = !in.empty();
  Harmer harmer(remains.chunk);
  for (int harms = 0; harms < 64 && !in.empty(); ++harms) harmer.harm(in.take<Harm>());
  plan.node.epoch = 2;
  if (options & kNoWorkers) plan.node.queue_entries = 1;
  testing::Node second(plan.node, remains, clock, random);
  if ((options & kGoneLate) == 0) second.conductor().predecessor_gone();
  use_pages(second, clock, harmed);
  if (options & kGoneLate) second.conductor().predecessor_gone();
  use_pages(second, clock, harmed);
  clock.advance_ns(3'600'000'000'000);
  require(second.settle(), "a node without sessions comes to rest");
  for (const std::string& broken :
       {sim::broken_invariant(second, plan), sim::broken_rest(second), sim::broken_end(second)})
    require(broken.empty(), "invariant:", broken);
}

}  // namespace
}  // namespace kvsidecar::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  kvsidecar::fuzz::run(kvsidecar::fuzz::FuzzInput(data, bytes));
  return 0;
}
