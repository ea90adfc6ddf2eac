// SPDX-License-Identifier: Apache-2.0
// Speed of copy workers on the host device against memcpy of the same bytes by as many threads in
// the same run. Runs of figure and floor are interleaved; medians are compared. After each figure
// the bytes are compared too: wrong ones are exit code 1.
#include <cstdio>
#include <functional>
#include <thread>

#include "sidecar/digest.h"
#include "tests/bench/copy/copy_rig.h"
#include "tests/bench/support/bench_run.h"

namespace kvsidecar {
namespace {

struct Case {
  const char* name;
  uint32_t threads, pages;
  uint64_t page_bytes, run_bytes;
  CopyKind kind;
  double reach;  // share of the floor
};

constexpr Case kCases[] = {
    {"copy worker, put of 2 MiB", 1, 64, 2 << 20, 2 << 20, CopyKind::kPut, 0.72},
    {"copy worker, put of 2 MiB in 16 KiB runs", 1, 64, 2 << 20, 16 << 10, CopyKind::kPut, 0.72},
    {"copy worker, put of 256 KiB", 1, 512, 256 << 10, 256 << 10, CopyKind::kPut, 0.72},
    {"two copy workers, put of 2 MiB", 2, 32, 2 << 20, 2 << 20, CopyKind::kPut, 0.70},
    {"copy worker, get of 2 MiB", 1, 64, 2 << 20, 2 << 20, CopyKind::kGet, 0.90},
    {"copy worker, get of 2 MiB in 16 KiB runs", 1, 64, 2 << 20, 16 << 10, CopyKind::kGet, 0.80},
    {"copy worker, layered get of 2 MiB in 16 KiB runs", 1, 64, 2 << 20, 16 << 10,
     CopyKind::kGetLayered, 0.80},
};

// GB/s of all rigs, each by a thread of its own.
double rate(std::vector<std::unique_ptr<CopyRig>>& rigs,
            const std::function<void(CopyRig&)>& copy) {
  const uint64_t start = real_clock().now_ns();
  std::vector<std::thread> others;
  for (size_t i = 1; i < rigs.size(); ++i) others.emplace_back([&, i] { copy(*rigs[i]); });
  copy(*rigs[0]);
  for (std::thread& other : others) other.join();
  return static_cast<double>(rigs.size() * rigs[0]->bytes()) /
         static_cast<double>(real_clock().now_ns() - start);
}

// False: a byte was wrong.
bool measure(const Case& of, BenchRun& run) {
  std::vector<std::unique_ptr<CopyRig>> rigs;
  for (uint32_t i = 0; i < of.threads; ++i)
    rigs.push_back(std::make_unique<CopyRig>(of.pages, of.page_bytes, of.run_bytes));
  const Direction direction = of.kind == CopyKind::kPut ? Direction::kStore : Direction::kLoad;
  const auto by_worker = [&](CopyRig& rig) { rig.copy_by_worker(of.kind); };
  const auto by_memcpy = [&](CopyRig& rig) { rig.copy_by_memcpy(direction); };
  std::vector<double> values, floors;
  for (uint32_t round = 0; round <= run.rounds; ++round) {
    const double least = rate(rigs, by_memcpy), value = rate(rigs, by_worker);
    if (round == 0) continue;  // warms up
    floors.push_back(least);
    values.push_back(value);
  }
  bool bytes_right = true;
  for (const auto& rig : rigs) {
    rig->scribble(std::byte{0x5a});
    rig->copy_by_worker(of.kind);
    bytes_right &= rig->sides_agree();
  }
  Figure figure;
  figure.name = of.name;
  figure.value = median(values);
  figure.floor = median(floors);
  figure.unit = "GB/s";
  figure.more_is_better = true;
  figure.ratio_limit = of.reach;
  figure.note = std::string("digests: ") + digest_variant();
  if (!bytes_right) figure.note = "WRONG BYTES";
  run.add(figure);
  return bytes_right;
}

}  // namespace
}  // namespace kvsidecar

int main(int argc, char** argv) {
  using namespace kvsidecar;
  auto run = begin_run(argc, argv, 11);
  if (!run) return 2;
  bool bytes_right = true;
  for (const Case& of : kCases)
    if (run->wants(of.name)) bytes_right &= measure(of, *run);
  run->print();
  return bytes_right ? 0 : 1;
}
