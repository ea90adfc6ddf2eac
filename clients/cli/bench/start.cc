// SPDX-License-Identifier: Apache-2.0
#include <poll.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "clients/cli/account.h"
#include "clients/cli/bench/measure.h"
#include "ipc/os.h"

namespace kvsidecar {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kPages = 50'000;
constexpr uint64_t kEntryBytes = 128;  // of a segment's directory, per page
constexpr uint32_t kKeys = 512;
constexpr int kStepMs = 1;
constexpr uint64_t kPatienceNs = 120'000'000'000;

EngineShape shape_of_pages() {
  EngineShape shape;
  shape.page_bytes = kPageBytes;
  shape.blocks = kKeys;
  return shape;
}

Status fill_store(BenchDaemon& daemon, uint64_t pages) {
  auto engine = BenchEngine::attach(daemon.socket(), shape_of_pages());
  if (!engine) return engine.status();
  if (Status filled = (*engine)->fill(0, pages); !filled.ok()) return filled;
  const uint64_t until_ns = monotonic_ns() + kPatienceNs;
  while (monotonic_ns() < until_ns) {
    const auto text = (*engine)->stat();
    const auto account = parse_account(text.value_or(""));
    if (account && account->write_pages == 0 && account->count("writes_done") >= pages) return {};
    (void)poll(nullptr, 0, 100 * kStepMs);
  }
  return {Code::kTimeout, "the pages didn't reach the store"};
}

// Seconds from the start of the daemon until a lookup finds what lies in the store.
Result<double> start_s(BenchDaemon& daemon, uint64_t pages) {
  daemon.stop();
  daemon.remove_pool();
  const uint64_t begin = monotonic_ns();
  if (Status started = daemon.start_again(); !started.ok()) return started;
  auto engine = BenchEngine::attach(daemon.socket(), shape_of_pages());
  if (!engine) return engine.status();
  const std::vector<std::byte> keys = bench_keys(pages - kKeys, kKeys);
  while (monotonic_ns() < begin + kPatienceNs) {
    if ((*engine)->lookup(keys, kKeys).ok())
      return static_cast<double>(monotonic_ns() - begin) / 1e9;
    (void)poll(nullptr, 0, kStepMs);
  }
  return Status(Code::kTimeout, "the stored pages weren't found after a start");
}

// Reads as many bytes of the store's files as the directories of that many pages have.
Result<double> read_s(const std::string& folder, uint64_t pages) {
  uint64_t left = pages * kEntryBytes;
  std::vector<char> buffer(1 << 20);
  std::error_code error;
  const uint64_t begin = monotonic_ns();
  for (const auto& entry : fs::recursive_directory_iterator(folder + "/store", error)) {
    std::ifstream file(entry.path(), std::ios::binary);
    while (left > 0 && file) {
      file.read(buffer.data(), static_cast<std::streamsize>(std::min<uint64_t>(left, 1 << 20)));
      left -= static_cast<uint64_t>(file.gcount());
    }
  }
  return static_cast<double>(monotonic_ns() - begin) / 1e9;
}

}  // namespace

Status measure_start(Bench& bench) {
  const uint64_t pages =
      bench.options.pages_max != 0 ? std::max<uint64_t>(bench.options.pages_max, kKeys) : kPages;
  RigOptions rig;
  rig.pool_bytes = std::max<uint64_t>(pages * (kPageBytes + 512) * 9 / 8, 64ull << 20);
  rig.store_bytes = std::max<uint64_t>(4 * pages * kPageBytes, 512ull << 20);
  auto daemon = BenchDaemon::start(bench.daemon, rig);
  if (!daemon) return daemon.status();
  if (Status filled = fill_store(**daemon, pages); !filled.ok()) return filled;
  const auto found = interleave(
      std::min(bench.options.rounds, 3u), [&] { return start_s(**daemon, pages); },
      [&] { return read_s((*daemon)->folder(), pages); });
  if (!found) return found.status();
  Figure figure;
  figure.name = "start with stored pages";
  figure.value = found->value;
  figure.floor = found->floor;
  figure.unit = "s";
  figure.value_limit = 1;
  figure.note =
      std::to_string(pages) + " pages (the aim is 1,000,000); floor: reading their entries";
  bench.figures.push_back(figure);
  return {};
}

}  // namespace kvsidecar
