// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "clients/cli/bench/child.h"
#include "clients/cli/bench/measure.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kPageBytes = 2ull << 20;
constexpr uint32_t kPages = 32;
constexpr uint64_t kPieceNs = 500'000'000;
constexpr uint64_t kPatienceNs = 120'000'000'000;

// A round begins when `round` changes; each client of the round adds what it loaded.
struct Field {
  std::atomic<uint32_t> ready, round, clients, finished;
  std::atomic<uint64_t> pages[2];
};

int run_client(const std::string& socket, Field& field, uint32_t number, uint32_t rounds) {
  EngineShape shape;
  shape.page_bytes = kPageBytes;
  shape.blocks = kPages;
  auto engine = BenchEngine::attach(socket, shape);
  if (!engine || !(*engine)->fill(0, kPages).ok()) return 1;
  field.ready.fetch_add(1);
  futex_wake(field.ready);
  for (uint32_t round = 0; round < rounds; ++round) {
    if (!await_change(field.round, round, kPatienceNs)) return 1;
    uint64_t loaded = 0;
    const uint64_t until_ns = monotonic_ns() + kPieceNs;
    while (number < field.clients.load() && monotonic_ns() < until_ns) {
      if (!(*engine)->get(0, kPages)) return 1;
      loaded += kPages;
    }
    field.pages[number].store(loaded);
    field.finished.fetch_add(1);
    futex_wake(field.finished);
  }
  return 0;
}

bool await_value(std::atomic<uint32_t>& word, uint32_t wanted) {
  for (uint32_t seen = word.load(); seen < wanted; seen = word.load())
    if (!await_change(word, seen, kPatienceNs)) return false;
  return true;
}

// Runs one round with that many clients at work.
bool run_round(Field& field, uint32_t clients) {
  field.clients.store(clients);
  field.finished.store(0);
  field.round.fetch_add(1);
  futex_wake(field.round);
  return await_value(field.finished, 2);
}

double gigabytes_per_s(uint64_t pages) {
  return static_cast<double>(pages * kPageBytes) / static_cast<double>(kPieceNs);
}

}  // namespace

Status measure_two_clients(Bench& bench) {
  auto memory = SharedMemory::make(4096);
  if (!memory) return memory.status();
  Field& field = memory->as<Field>();
  RigOptions rig;
  rig.pool_bytes = 256ull << 20;
  auto daemon = BenchDaemon::start(bench.daemon, rig);
  if (!daemon) return daemon.status();
  const std::string socket = (*daemon)->socket();
  const uint32_t rounds = 2 * bench.options.rounds + 2;
  auto first = Child::run([&] { return run_client(socket, field, 0, rounds); });
  if (!first) return first.status();
  auto second = Child::run([&] { return run_client(socket, field, 1, rounds); });
  if (!second) return second.status();
  const Status stuck{Code::kTimeout, "the two clients of the bench don't get on"};
  if (!await_value(field.ready, 2)) return stuck;
  std::vector<double> one, both, apart;
  for (uint32_t round = 0; round <= bench.options.rounds; ++round) {
    if (!run_round(field, 1)) return stuck;
    const double alone = gigabytes_per_s(field.pages[0].load());
    if (!run_round(field, 2)) return stuck;
    if (round == 0) continue;
    const double a = gigabytes_per_s(field.pages[0].load());
    const double b = gigabytes_per_s(field.pages[1].load());
    one.push_back(alone);
    both.push_back(a + b);
    apart.push_back(a + b > 0 ? 100 * std::fabs(a - b) / (a + b) : 100);
  }
  Figure total;
  total.name = "two clients at once";
  total.value = median(both);
  total.floor = median(one);
  total.unit = "GB/s";
  total.more_is_better = true;
  total.ratio_limit = 0.95;
  total.note = "gets of 32 pages of 2 MiB; floor: one client";
  Figure shares;
  shares.name = "two clients' shares";
  shares.value = median(apart);
  shares.unit = "% apart";
  shares.value_limit = 10;
  shares.note = "difference of the two, of their sum";
  bench.figures.push_back(total);
  bench.figures.push_back(shares);
  return {};
}

}  // namespace kvsidecar
