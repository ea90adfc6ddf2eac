// SPDX-License-Identifier: Apache-2.0
// A real daemon over a store with as many pages as are asked for, which nobody had to put: their
// directory entries are written here, after the example of a segment that the daemon wrote.
// Measured are the start until lookups answer, a lookup of 512 keys beside the same among a
// thousand pages (O8-04: independent of what is stored), and the memory the daemon takes per page.
//
//   --pages N (default 1,000,000; ten million take 600 MB of memory and 2 GB of a sparse-file disk)
//   --daemon FILE
#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "clients/cli/account.h"
#include "clients/cli/bench/measure.h"
#include "clients/cli/bench/placement.h"
#include "sidecar/store/node_folder.h"
#include "tests/bench/support/bench_run.h"
#include "tests/bench/support/directories.h"

namespace kvsidecar {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kPageBytes = 4096, kSlotBytes = 8192;
constexpr uint64_t kFewPages = 1024;
constexpr uint32_t kKeys = 512;
constexpr uint32_t kLookups = 200;
constexpr uint64_t kPatienceNs = 300'000'000'000;
constexpr const char *kStart = "start, until lookups answer",
                     *kLookup = "lookup of 512 keys, stored", *kMemory = "memory per indexed page";

Result<std::unique_ptr<BenchEngine>> attach(BenchDaemon& daemon) {
  EngineShape shape;
  shape.page_bytes = kPageBytes;
  shape.blocks = kKeys;
  return BenchEngine::attach(daemon.socket(), shape);
}

// What a segment that the daemon wrote says of itself.
Result<Superblock> example(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(folder + "/store", error)) {
    if (segment_from_name(entry.path().filename().string()) == 0) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    std::vector<char> head(kSuperblockBytesMax);
    file.read(head.data(), static_cast<std::streamsize>(head.size()));
    return decode_superblock(
        {reinterpret_cast<const std::byte*>(head.data()), static_cast<size_t>(file.gcount())});
  }
  return Status(Code::kMiss, "the daemon wrote no segment");
}

Status store_few(BenchDaemon& daemon) {
  auto engine = attach(daemon);
  if (!engine) return engine.status();
  if (Status filled = (*engine)->fill(0, kFewPages); !filled.ok()) return filled;
  const uint64_t until_ns = monotonic_ns() + kPatienceNs;
  while (monotonic_ns() < until_ns) {
    const auto account = parse_account((*engine)->stat().value_or(""));
    if (account && account->count("writes_done") >= kFewPages) return {};
    (void)poll(nullptr, 0, 10);
  }
  return {Code::kTimeout, "the pages didn't reach the store"};
}

// The daemon is down; it finds kFewPages .. pages - 1, too, when it starts again.
Status store_many(BenchDaemon& daemon, uint64_t pages) {
  auto like = example(daemon.folder());
  if (!like) return like.status();
  const Hash128 space = namespace_id(like->encoded);
  const auto claimed = NodeFolder::claim(daemon.folder() + "/store", daemon.folder() + "/state", 0);
  if (!claimed) return claimed.status();
  make_directories(claimed->path(), *like, uint64_t{claimed->epoch()} << 32 | 1, pages - kFewPages,
                   [&](uint64_t number) {
                     const auto key = bench_keys(kFewPages + number, 1);
                     return page_hash(space, like->generation, key);
                   });
  return {};
}

// Keys of pages all over the store, in no segment too few.
std::vector<std::byte> sample(uint64_t pages) {
  std::vector<std::byte> keys;
  for (uint32_t i = 0; i < kKeys; ++i) {
    const auto key = bench_keys(i * (pages - 1) / (kKeys - 1), 1);
    keys.insert(keys.end(), key.begin(), key.end());
  }
  return keys;
}

// Seconds from the start until a lookup finds pages of every segment; the pool's copies are gone.
Result<double> start_s(BenchDaemon& daemon, uint64_t pages) {
  daemon.stop();
  daemon.remove_pool();
  const uint64_t begin = monotonic_ns();
  if (Status started = daemon.start_again(); !started.ok()) return started;
  auto engine = attach(daemon);
  if (!engine) return engine.status();
  const std::vector<std::byte> keys = sample(pages);
  while (monotonic_ns() < begin + kPatienceNs) {
    if ((*engine)->lookup(keys, kKeys).ok())
      return static_cast<double>(monotonic_ns() - begin) / 1e9;
    (void)poll(nullptr, 0, 1);
  }
  return Status(Code::kTimeout, "the stored pages weren't found after a start");
}

// Reads the directories of all segments.
Result<double> read_s(const BenchDaemon& daemon) {
  std::error_code error;
  std::vector<char> bytes(uint64_t{kDirectoryEntriesMax} * kEntryBytes + kSuperblockBytesMax);
  const uint64_t begin = monotonic_ns();
  for (const auto& entry : fs::recursive_directory_iterator(daemon.folder() + "/store", error)) {
    if (segment_from_name(entry.path().filename().string()) == 0) continue;
    std::ifstream(entry.path(), std::ios::binary)
        .read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  return static_cast<double>(monotonic_ns() - begin) / 1e9;
}

Result<double> lookup_ns(BenchEngine& engine, uint64_t pages) {
  uint64_t next = 0;
  return median_of(kLookups, [&] {
    const uint64_t first = next * kKeys % (pages - kKeys + 1);
    next += 7919;  // a prime: over all of them
    return engine.lookup(bench_keys(first, kKeys), kKeys);
  });
}

// Bytes of the daemon's own memory, the pool left out.
uint64_t private_bytes(BenchEngine& engine) {
  kvs_connection connection{};
  connection.struct_size = sizeof connection;
  KV_CHECK(kvs_connection_get(engine.client().c(), &connection) == KVS_OK);
  std::ifstream file("/proc/" + std::to_string(connection.daemon_pid) + "/status");
  std::string word;
  while (file >> word)
    if (uint64_t kib = 0; word == "RssAnon:" && file >> kib) return kib << 10;
  return 0;
}

struct Life {
  double lookup_ns = 0;
  uint64_t bytes = 0;
};
Result<Life> live(BenchDaemon& daemon, uint64_t pages) {
  auto engine = attach(daemon);
  if (!engine) return engine.status();
  const auto spent = lookup_ns(**engine, pages);
  if (!spent) return spent.status();
  return Life{*spent, private_bytes(**engine)};
}

Status measure(uint64_t pages, const std::string& program, BenchRun& run) {
  RigOptions rig;
  rig.pool_bytes = 64ull << 20;
  rig.store_bytes = std::max<uint64_t>(2 * pages * kSlotBytes, 1ull << 30);
  auto few = BenchDaemon::start(program, rig), many = BenchDaemon::start(program, rig);
  if (!few) return few.status();
  if (!many) return many.status();
  for (BenchDaemon* const daemon : {few->get(), many->get()})
    if (Status stored = store_few(*daemon); !stored.ok()) return stored;
  (*many)->stop();
  if (Status stored = store_many(**many, pages); !stored.ok()) return stored;
  const auto starts = interleave(
      std::min(run.rounds, 3u), [&] { return start_s(**many, pages); },
      [&] { return read_s(**many); });
  if (!starts) return starts.status();
  {
    const CoreScope servers(CoreScope::kServers);
    for (const auto& [daemon, stored] :
         {std::pair{few->get(), kFewPages}, std::pair{many->get(), pages}})
      if (auto started = start_s(*daemon, stored); !started) return started.status();
  }
  const CoreScope asker(CoreScope::kAsker);
  std::vector<double> values, floors, memory;
  for (uint32_t round = 0; round < run.rounds; ++round) {
    const auto one = live(**many, pages), least = live(**few, kFewPages);
    if (!one || !least) return one ? least.status() : one.status();
    values.push_back(one->lookup_ns / 1e3);
    floors.push_back(least->lookup_ns / 1e3);
    memory.push_back((static_cast<double>(one->bytes) - static_cast<double>(least->bytes)) /
                     static_cast<double>(pages - kFewPages));
  }
  const std::string count = std::to_string(pages) + " stored pages";
  run.add({.name = kStart,
           .value = starts->value,
           .unit = "s",
           .floor = starts->floor,
           .value_limit = pages <= 1'000'000 ? 1.0 : 0.0,
           .note = count + "; floor: reading their directories"});
  run.add({.name = kLookup,
           .value = median(values),
           .unit = "us",
           .floor = median(floors),
           .ratio_limit = 2,
           .note = count + "; floor: the same among 1024"});
  run.add({.name = kMemory,
           .value = median(memory),
           .unit = "bytes",
           .value_limit = 64,
           .note = count + ", the daemon's own memory beyond one's with 1024"});
  return {};
}

}  // namespace
}  // namespace kvsidecar

int main(int argc, char** argv) {
  using namespace kvsidecar;
  std::string pages = "1000000", named;
  auto run = begin_run(argc, argv, 7, {{"--pages", &pages}, {"--daemon", &named}});
  if (!run) return 2;
  auto program = find_daemon(named);
  if (!program) {
    std::fprintf(stderr, "many_pages: %s\n", program.status().text().c_str());
    return 2;
  }
  const uint64_t count = std::max<uint64_t>(std::strtoull(pages.c_str(), nullptr, 10), 1u << 16);
  if (Status measured = measure(count, *program, *run); !measured.ok()) {
    std::fprintf(stderr, "many_pages: %s\n", measured.text().c_str());
    return 1;
  }
  run->print();
  return 0;
}
