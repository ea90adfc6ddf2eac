// SPDX-License-Identifier: Apache-2.0
// Goal: how near the store on 3FS comes to USRBIO itself. Method: a fuse server that speaks the
// protocol (mini3fs) over files in memory; pages of 1 MiB are read, hashed and copied, one after
// another and 32 at once, through the store (by the builtin client, and by the same behind the
// library's C ABI) and through a daemon and its client, beside bare reads by the C API that are
// hashed and copied too. All take turns and the medians of all rounds are compared; again with 1 ms
// of latency in the server. Then the daemon's CPU time, and the memory that it shares. On two cores
// everything, the server included, stands in everybody's way. Beside the common arguments:
// --daemon FILE, --pages N (of each stretch).
#include <algorithm>
#include <cstdlib>
#include <functional>

#include "tests/bench/store/usrbio_bench_bare.h"
#include "tests/bench/store/usrbio_bench_daemon.h"
#include "tests/bench/store/usrbio_bench_store.h"
#include "tests/bench/support/bench_run.h"
#include "tests/usrbio/mini3fs/fixture.h"

namespace kvsidecar {
namespace {

constexpr unsigned kFinishers = 2;  // the daemon has one thread that hashes and one that copies
constexpr size_t kOnes = 48;        // pages of a round, one after another
constexpr const char* kLatencyUs = "1000";
constexpr const char *kOneName = ", 1 MiB", *kManyName = ", 32 at once", *kCpuName = ", CPU";
// The engines' in-process clients: numjobs clients of so many entries, for reads and for writes.
constexpr uint64_t kRanks = 8, kNumjobs = 16, kEntries = 8;

struct Samples {
  std::vector<double> one_us, many_gbs, cpu_s_per_gib;

  Status take_one(Result<double> ns) {
    if (ns) one_us.push_back(*ns / 1e3);
    return ns.status();
  }
  Status take_many(Result<Stretch> stretch, size_t pages) {
    if (!stretch) return stretch.status();
    const auto bytes = static_cast<double>(pages * kBenchPage);
    many_gbs.push_back(bytes / stretch->seconds / 1e9);
    cpu_s_per_gib.push_back(stretch->cpu_seconds / bytes * (1 << 30));
    return {};
  }
};

struct Way {
  std::string name;
  std::function<Status(Samples&)> ones, many;
  Samples samples;
};

struct Rig {
  size_t pages = 128;
  std::unique_ptr<fake3fs::Mini3fs> server;
  Finishers finishers{kFinishers};
  std::unique_ptr<PageReads> bare, builtin, library;
  std::unique_ptr<DaemonReads> daemon;
  size_t next_page = 0;

  Status open(const std::string& program) {
    auto started = fake3fs::Mini3fs::start();
    if (!started) return started.status();
    server = started.take();
    const std::string& mount = server->mount();
    const auto keep = [](auto&& made, auto& into) {
      if (made) into = made.take();
      return made.status();
    };
    Status status = keep(open_bare_reads(USRBIO_LIBRARY, mount, pages), bare);
    if (status.ok()) status = keep(open_store_reads("", mount, pages), builtin);
    if (status.ok()) status = keep(open_store_reads(USRBIO_LIBRARY, mount, pages), library);
    if (status.ok()) status = keep(DaemonReads::start(program, mount, pages), daemon);
    return status;
  }
};

Way way_of(const std::string& name, Rig& rig, PageReads& reads) {
  Way way;
  way.name = name;
  way.ones = [&rig, &reads](Samples& into) {
    Status status;
    for (size_t i = 0; i < kOnes && status.ok(); ++i)
      status = into.take_one(read_one(reads, rig.finishers, rig.next_page++ % rig.pages));
    return status;
  };
  way.many = [&rig, &reads](Samples& into) {
    return into.take_many(read_many(reads, rig.finishers, rig.pages), rig.pages);
  };
  return way;
}

Way way_of(const std::string& name, Rig& rig, DaemonReads& reads) {
  Way way;
  way.name = name;
  way.ones = [&reads](Samples& into) {
    Status status;
    for (size_t i = 0; i < kOnes && status.ok(); ++i) status = into.take_one(reads.get_one());
    return status;
  };
  way.many = [&rig, &reads](Samples& into) {
    return into.take_many(reads.get_many(rig.pages), rig.pages);
  };
  return way;
}

// The first round warms up and doesn't count. Who comes first changes from round to round.
Status take_turns(std::vector<Way>& ways, uint32_t rounds) {
  for (uint32_t round = 0; round <= rounds; ++round) {
    for (size_t i = 0; i < ways.size(); ++i) {
      Way& way = ways[(i + round) % ways.size()];
      Samples warming;
      Samples& into = round == 0 ? warming : way.samples;
      Status status = way.ones(into);
      if (status.ok()) status = way.many(into);
      if (!status.ok()) return {status.code(), way.name + ": " + status.text()};
    }
  }
  return {};
}

std::string spread_of(const std::vector<double>& us) {
  const auto text = [&](double share) {
    return std::to_string(static_cast<int>(percentile(us, share)));
  };
  return "p10 " + text(0.1) + ", p90 " + text(0.9);
}

void add_figures(BenchRun& run, const Way& way, const Samples& floor, bool late) {
  const std::string with = late ? ", 1 ms" : "";
  run.add({.name = way.name + kOneName + with,
           .value = median(way.samples.one_us),
           .unit = "us",
           .floor = median(floor.one_us),
           .ratio_limit = late ? 1.2 : 1.5,
           .note = spread_of(way.samples.one_us) + "; floor: " + spread_of(floor.one_us)});
  run.add({.name = way.name + kManyName + with,
           .value = median(way.samples.many_gbs),
           .unit = "GB/s",
           .floor = median(floor.many_gbs),
           .more_is_better = true,
           .ratio_limit = late ? 0.9 : 0.8});
  if (late) return;
  run.add({.name = way.name + kCpuName,
           .value = median(way.samples.cpu_s_per_gib),
           .unit = "s/GiB",
           .floor = median(floor.cpu_s_per_gib),
           .ratio_limit = 1.1});
}

Status measure(Rig& rig, BenchRun& run, bool late) {
  Status status = late ? rig.server->set("read.delay_us", kLatencyUs) : rig.server->clear();
  std::vector<Way> ways = {way_of("bare", rig, *rig.bare),
                           way_of("3FS, store, builtin", rig, *rig.builtin),
                           way_of("3FS, store, library", rig, *rig.library),
                           way_of("3FS, daemon and client", rig, *rig.daemon)};
  const auto wanted = [&](const Way& way) {
    const std::string with = late ? ", 1 ms" : "";
    return run.wants(way.name + kOneName + with) || run.wants(way.name + kManyName + with) ||
           (!late && run.wants(way.name + kCpuName));
  };
  ways.erase(std::remove_if(ways.begin() + 1, ways.end(), std::not_fn(wanted)), ways.end());
  if (ways.size() == 1) return {};
  if (status.ok()) status = take_turns(ways, run.rounds);
  if (!status.ok()) return status;
  for (size_t i = 1; i < ways.size(); ++i) add_figures(run, ways[i], ways[0].samples, late);
  return {};
}

Status measure_all(Rig& rig, const std::string& program, BenchRun& run) {
  Status status = rig.open(program);
  for (const bool late : {false, true})
    if (status.ok()) status = measure(rig, run, late);
  if (!status.ok()) return status;
  if (const double share = rig.daemon->share_from_store(); share < 0.95)
    return {Code::kInternal, "only " + std::to_string(share) + " of the gets came from the store"};
  run.add({.name = "3FS, shared memory, 8 ranks",
           .value = static_cast<double>(rig.daemon->shared_bytes() >> 20),
           .unit = "MiB",
           .floor = static_cast<double>(kRanks * kNumjobs * kEntries * 2 * kBenchPage >> 20),
           .ratio_limit = 1,
           .note = "beside the host pool; floor: of in-process clients"});
  return {};
}

int run_all(int argc, char** argv) {
  std::string named, pages;
  auto run = begin_run(argc, argv, 5, {{"--daemon", &named}, {"--pages", &pages}});
  if (!run) return 2;
  if (const std::string missing = fake3fs::Mini3fs::missing(); !missing.empty()) {
    std::fprintf(stderr, "usrbio_bench: %s\n", missing.c_str());
    return 77;
  }
  // The server's files and the daemon's lie in memory.
  ::setenv("TMPDIR", "/dev/shm", 1);
  const auto program = find_daemon(named.empty() ? KVSIDECARD_PROGRAM : named);
  Status status = program.status();
  if (status.ok()) {
    Rig rig;
    if (!pages.empty())
      rig.pages = std::clamp<size_t>(std::strtoull(pages.c_str(), nullptr, 10), kBenchDepth, 512) /
                  kBenchDepth * kBenchDepth;
    status = measure_all(rig, *program, *run);
  }
  if (!status.ok()) {
    std::fprintf(stderr, "usrbio_bench: %s\n", status.text().c_str());
    return 1;
  }
  run->print();
  return 0;
}

}  // namespace
}  // namespace kvsidecar

int main(int argc, char** argv) { return kvsidecar::run_all(argc, argv); }
