// SPDX-License-Identifier: Apache-2.0
// How much of the host pool holds no page bytes when page sizes are mixed: slot tables, tails of
// runs, rounding to 4 KiB, free slots in spans of a shape (stranded) and empty spans. Two scenes:
// a node that has filled up at a steady mix, and the same after the mix has turned round. The pool
// is real, over memory that is never touched but for the tables.
#include <sys/mman.h>

#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "sidecar/pool/host_pool.h"
#include "tests/bench/support/bench_run.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kPoolBytes = 8ull << 30;
constexpr uint64_t kChunkBytes = 1ull << 30;

struct Kind {
  const char* name;
  uint64_t page_bytes;
  double share;  // of the bytes put
};

struct Waste {
  double table, tail, rounding, stranded, empty, total;  // percent of the pool
};

class Node {
 public:
  explicit Node(const std::vector<Kind>& kinds) : kinds_(kinds), pool_(1) {
    for (uint64_t i = 0; i < kPoolBytes / kChunkBytes; ++i) {
      void* const at = mmap(nullptr, kChunkBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      KV_CHECK(at != MAP_FAILED);
      memory_.push_back(at);
      pool_.add_chunk({static_cast<std::byte*>(at), kChunkBytes});
    }
  }
  ~Node() {
    for (void* const at : memory_) munmap(at, kChunkBytes);
  }

  // Puts pages of all kinds, by their shares of the bytes, until `bytes` have been put.
  void put(uint64_t bytes, const std::vector<double>& shares) {
    std::vector<double> rate;
    for (size_t i = 0; i < kinds_.size(); ++i)
      rate.push_back(shares[i] / static_cast<double>(kinds_[i].page_bytes));
    std::discrete_distribution<size_t> pick(rate.begin(), rate.end());
    for (uint64_t done = 0; done < bytes;) {
      const Kind& kind = kinds_[pick(random_)];
      put_page(kind.page_bytes);
      done += kind.page_bytes;
    }
  }

  Waste waste() const {
    const HostPool::Usage u = pool_.usage();
    const auto percent = [&](uint64_t of) {
      return 100.0 * static_cast<double>(of) / static_cast<double>(u.bytes);
    };
    uint64_t entries = 0;  // of all slots, and headers: the rest of table_bytes is tails
    for (const auto& [entry_bytes, slots] : slots_by_entry(u)) entries += entry_bytes * slots;
    return {percent(entries),
            percent(u.table_bytes - entries),
            percent(u.rounding_bytes),
            percent(u.stranded_bytes),
            percent(u.spans_empty * kSpanBytes),
            100.0 - percent(u.page_bytes)};
  }

 private:
  // All kinds here have one part and no description: one entry size.
  static std::vector<std::pair<uint64_t, uint64_t>> slots_by_entry(const HostPool::Usage& u) {
    return {{slot_shape(4096, 1, 0).entry_bytes, u.slots_full + u.slots_filling + u.slots_free}};
  }

  void put_page(uint64_t page_bytes) {
    const SlotShape shape = slot_shape(page_bytes, 1, 0);
    SlotId slot;
    while ((slot = pool_.allocate(shape)) == kNoSlot) {
      KV_CHECK(pool_.reclaim(
          shape, [](SlotId) { return true; }, [this](SlotId victim) { pool_.release(victim); }));
    }
    PageRecord record;
    record.hash = {++number_, 0};
    record.page_bytes = page_bytes;
    record.part_digests = {0};
    record.key.resize(32);
    KV_CHECK(pool_.publish(slot, record, {.page = number_, .request = number_ / 64}));
  }

  std::vector<Kind> kinds_;
  HostPool pool_;
  std::vector<void*> memory_;
  std::mt19937_64 random_{1};
  uint64_t number_ = 0;
};

void report(const std::string& scene, const Waste& w, BenchRun& run) {
  const std::pair<const char*, double> rows[] = {{"table", w.table},       {"tail", w.tail},
                                                 {"rounding", w.rounding}, {"stranded", w.stranded},
                                                 {"empty", w.empty},       {"total", w.total}};
  for (const auto& [name, value] : rows) {
    Figure figure;
    figure.name = "pool waste, " + scene + ", " + name;
    figure.value = value;
    figure.unit = "%";
    figure.note = "of the pool without page bytes";
    run.add(figure);
  }
}

void run_mix(const std::string& name, const std::vector<Kind>& kinds, BenchRun& run) {
  Node node(kinds);
  std::vector<double> shares, turned;
  for (const Kind& kind : kinds) shares.push_back(kind.share);
  turned.assign(shares.rbegin(), shares.rend());
  node.put(kPoolBytes * 2, shares);
  report(name + ", steady", node.waste(), run);
  node.put(kPoolBytes * 2, turned);
  report(name + ", after the mix turned round", node.waste(), run);
}

}  // namespace
}  // namespace kvsidecar

int main(int argc, char** argv) {
  using namespace kvsidecar;
  auto run = begin_run(argc, argv, 1);  // nothing is timed: one round tells all
  if (!run) return 2;
  run_mix("one size: 1 MiB", {{"kv", 1u << 20, 1}}, *run);
  run_mix("4 KiB 5 %, 8 MiB 95 %", {{"indexer", 4096, 0.05}, {"kv", 8u << 20, 0.95}}, *run);
  run_mix("4 KiB, 8 MiB half each", {{"indexer", 4096, 0.5}, {"kv", 8u << 20, 0.5}}, *run);
  run_mix("4 KiB, 70 kB, 1.1 MB, 8 MiB, 20 MiB",
          {{"c4", 4096, 0.1},
           {"swa", 70'000, 0.2},
           {"mla", 1'124'864, 0.3},
           {"kv", 8u << 20, 0.2},
           {"mamba", 20u << 20, 0.2}},
          *run);
  run->print();
  return 0;
}
