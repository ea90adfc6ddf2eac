// SPDX-License-Identifier: Apache-2.0
// The index alone, from a thousand to ten million pages: memory per page, 512 finds beside the same
// in a bare hash table of as many keys, and pages leaving and coming beside the same among ten
// thousand (O8-10: the cost of an operation is flat).
#include <random>

#include "clients/cli/bench/floors.h"
#include "ipc/os.h"
#include "sidecar/index/index.h"
#include "tests/bench/support/bench_run.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kThousand = 1000, kMillion = kThousand * kThousand;
constexpr uint32_t kKeys = 512;
constexpr uint32_t kBatches = 200;

// Hashes of pages are spread evenly; a bijection of the number keeps them apart.
Hash128 hash_of(uint64_t number) {
  uint64_t x = number + 1;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return {x ^ (x >> 31), number};
}

class Pages {
 public:
  explicit Pages(uint64_t count) : count_(count) {
    for (uint64_t i = 0; i < count; ++i) index_.insert(hash_of(i));
  }
  const Index& index() const { return index_; }

  std::vector<Hash128> some() {
    std::vector<Hash128> hashes(kKeys);
    for (Hash128& hash : hashes) hash = hash_of(random_() % count_);
    return hashes;
  }
  // Nanoseconds for 512 finds.
  double find_ns() {
    const std::vector<Hash128> hashes = some();
    std::vector<EntryId> found(kKeys);
    const uint64_t begin = monotonic_ns();
    index_.find(hashes, found);
    const auto spent = static_cast<double>(monotonic_ns() - begin);
    for (const EntryId id : found) KV_CHECK(id != kNoEntry);
    return spent;
  }
  // Nanoseconds for 512 pages that go and come again.
  double change_ns() {
    const std::vector<Hash128> hashes = some();
    const uint64_t begin = monotonic_ns();
    for (const Hash128& hash : hashes) {
      index_.erase(index_.find(hash));
      index_.insert(hash);
    }
    return static_cast<double>(monotonic_ns() - begin);
  }

 private:
  const uint64_t count_;
  Index index_;
  std::mt19937_64 random_{1};
};

std::vector<std::byte> bytes_of(const std::vector<Hash128>& hashes) {
  const auto* first = reinterpret_cast<const std::byte*>(hashes.data());
  return {first, first + hashes.size() * sizeof(Hash128)};
}

BareTable bare_table(uint64_t count) {
  std::vector<Hash128> hashes(count);
  for (uint64_t i = 0; i < count; ++i) hashes[i] = hash_of(i);
  return BareTable(bytes_of(hashes));
}

template <typename One>
double median_ns(One&& one) {
  std::vector<double> values(kBatches);
  for (double& value : values) value = one();
  return median(std::move(values));
}

std::string among(uint64_t count) {
  return count < kMillion ? std::to_string(count / kThousand) + " thousand"
                          : std::to_string(count / kMillion) + " million";
}

Figure figure_of(const std::string& name, double value, double floor, double limit,
                 const char* note) {
  Figure figure;
  figure.name = name;
  figure.value = value / 1e3;
  figure.floor = floor / 1e3;
  figure.unit = "us";
  figure.ratio_limit = limit;
  figure.note = note;
  return figure;
}

void measure(uint64_t count, Pages& few, BenchRun& run) {
  Pages pages(count);
  const BareTable table = bare_table(count);
  std::vector<double> finds, bare_finds, changes, few_changes;
  uint64_t found = 0;
  for (uint32_t round = 0; round <= run.rounds; ++round) {
    finds.push_back(median_ns([&] { return pages.find_ns(); }));
    bare_finds.push_back(median_ns([&] { return table.find_ns(bytes_of(pages.some()), found); }));
    changes.push_back(median_ns([&] { return pages.change_ns(); }));
    few_changes.push_back(median_ns([&] { return few.change_ns(); }));
  }
  run.add(figure_of("index, find of 512 among " + among(count), median(finds), median(bare_finds),
                    4, "floor: a bare table of as many"));
  run.add(figure_of("index, erase and insert of 512 among " + among(count), median(changes),
                    median(few_changes), 0, "floor: the same among 10 thousand"));
  Figure memory;
  memory.name = "index, memory per page of " + among(count);
  memory.value = static_cast<double>(pages.index().memory_bytes()) / static_cast<double>(count);
  memory.unit = "bytes";
  // A few pages pay for shards that are there from the start.
  memory.value_limit = count < 100 * kThousand ? 0 : 64;
  run.add(memory);
}

}  // namespace
}  // namespace kvsidecar

int main(int argc, char** argv) {
  using namespace kvsidecar;
  auto run = begin_run(argc, argv, 7);
  if (!run) return 2;
  Pages few(10 * kThousand);
  for (const uint64_t count : {kThousand, 100 * kThousand, kMillion, 10 * kMillion})
    measure(count, few, *run);
  run->print();
  return 0;
}
