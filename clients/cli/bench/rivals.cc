// SPDX-License-Identifier: Apache-2.0
// The rivals' work, through this daemon's clients. What the best of them reached was measured on
// another machine: of its rates counts the ratio to the same floor there, a plain server of one
// thread, since machines differ in how fast they copy; of its times the time itself, since that
// floor slept and this one seldom does.
#include <algorithm>
#include <numeric>
#include <random>

#include "clients/cli/bench/measure.h"
#include "clients/cli/bench/plain_server.h"
#include "clients/cli/bench/work.h"

namespace kvsidecar {
namespace {

using namespace work;

struct RivalTask {
  const char *task, *name;
  bool is_rate;        // GB/s, else microseconds
  double best, floor;  // of the best rival, and of the plain server beside it
  const char* note;
};
// Lookups come first: puts evict what they find.
constexpr RivalTask kTasks[] = {
    {"lookup", "lookup", false, 177, 86,
     "512 keys, all hits, p50; best rival 177 us where the floor is 86"},
    {"put", "put", true, 13.5, 19.5,
     "64 pages of 256 KiB; best rival 13.5 where the floor is 19.5"},
    {"get", "get", true, 13.4, 21.0,
     "64 pages of 256 KiB; best rival 13.4 where the floor is 21.0"},
    {"put_page", "put of one page", false, 102, 36,
     "256 KiB, p50; best rival's get 102 us where the floor is 36"},
    {"get_page", "get of one page", false, 102, 36,
     "256 KiB, p50; best rival 102 us where the floor is 36"},
};
constexpr uint64_t kPoolBytes = 1ull << 30;
constexpr double kOwnTimeLimitUs = 200;
constexpr const char* kFromCpp = "rivals' work, ";
constexpr const char* kFromPython = "rivals' work from Python, ";
constexpr const char* kOwnTime = "rivals' work from Python, client's own time";

// The same rounds by a plain server.
class Floor {
 public:
  static Result<Floor> start() {
    auto server = PlainServer::start({.page_bytes = kPageBytes,
                                      .blocks = kBlocks,
                                      .slots = kPoolBytes / kPageBytes,
                                      .keys = bench_keys(0, kKeys * kPrompts)});
    if (!server) return server.status();
    return Floor(server.take());
  }

  Result<double> run(const std::string& task) {
    if (task == "put" || task == "get")
      return median_of(kBatches, [&] { return transfer(task == "put", kBatch); });
    if (task == "put_page" || task == "get_page")
      return median_of(kSingles, [&] { return transfer(task == "put_page", 1); });
    uint32_t found = 0;
    return median_of(kLookups, [&] {
      const uint64_t first = uint64_t{prompt_++ % kPrompts} * kKeys;
      return server_->find_ns(bench_keys(first, kKeys), found);
    });
  }

 private:
  explicit Floor(std::unique_ptr<PlainServer> server) : server_(std::move(server)) {
    blocks_.resize(kBlocks);
    std::iota(blocks_.begin(), blocks_.end(), 0u);
  }

  // A get takes what was put a round ago.
  Result<double> transfer(bool is_put, uint32_t count) {
    std::shuffle(blocks_.begin(), blocks_.end(), random_);
    PlainServer::Copy copies[kBatch];
    uint64_t& next = is_put ? put_ : get_;
    for (uint32_t i = 0; i < count; ++i)
      copies[i] = {blocks_[i], static_cast<uint32_t>(next++ % (kPoolBytes / kPageBytes))};
    return is_put ? server_->put_ns({copies, count}) : server_->get_ns({copies, count});
  }

  std::unique_ptr<PlainServer> server_;
  std::vector<uint32_t> blocks_;
  std::mt19937 random_;
  uint64_t put_ = 0, get_ = 0;
  uint32_t prompt_ = 0;
};

struct Rounds {
  std::vector<double> cpp, python, floor;
};

// C++, Python, floor, C++, …; the first of each warms up.
Result<Rounds> run_rounds(uint32_t rounds, const std::string& task, Work& cpp, Work* python,
                          Floor& floor) {
  Rounds all;
  for (uint32_t round = 0; round <= rounds; ++round) {
    const auto one = cpp.run(task);
    if (!one) return one.status();
    const auto other = python != nullptr ? python->run(task) : Result<double>(0.0);
    if (!other) return other.status();
    const auto least = floor.run(task);
    if (!least) return least.status();
    if (round == 0) continue;
    all.cpp.push_back(*one);
    all.python.push_back(*other);
    all.floor.push_back(*least);
  }
  return all;
}

Figure rival_figure(const RivalTask& task, const std::string& who, double value_ns,
                    double floor_ns) {
  constexpr auto kBatchBytes = static_cast<double>(kBatch * kPageBytes);
  Figure figure;
  figure.name = who + task.name;
  figure.more_is_better = task.is_rate;
  figure.value = task.is_rate ? kBatchBytes / value_ns : value_ns / 1e3;
  figure.floor = task.is_rate ? kBatchBytes / floor_ns : floor_ns / 1e3;
  figure.unit = task.is_rate ? "GB/s" : "us";
  if (task.is_rate)
    figure.ratio_limit = task.best / task.floor;
  else
    figure.value_limit = task.best;
  figure.note = task.note;
  return figure;
}

Status measure_own_time(Bench& bench, Work& python) {
  const auto own = median_of(bench.options.rounds, [&] { return python.run("own"); });
  if (!own) return own.status();
  Figure figure;
  figure.name = kOwnTime;
  figure.value = *own / 1e3;
  figure.unit = "us";
  figure.value_limit = kOwnTimeLimitUs;
  figure.note = "get of 512 pages, beside what the C library needs";
  bench.figures.push_back(figure);
  return {};
}

}  // namespace

Status measure_rivals(Bench& bench) {
  RigOptions rig;
  rig.pool_bytes = kPoolBytes;
  rig.copy_threads = 0;
  auto daemon = BenchDaemon::start(bench.daemon, rig);
  if (!daemon) return daemon.status();
  auto floor = Floor::start();
  if (!floor) return floor.status();
  std::unique_ptr<Work> python;
  if (!bench.options.python.empty()) {
    auto started = start_python_work(bench.options.python, (*daemon)->socket());
    if (!started) return started.status();
    python = started.take();
  }
  auto cpp = start_cpp_work((*daemon)->socket());
  if (!cpp) return cpp.status();
  if (python && bench.wants(kOwnTime))
    if (Status own = measure_own_time(bench, *python); !own.ok()) return own;
  for (const RivalTask& task : kTasks) {
    if (!bench.wants(std::string(kFromCpp) + task.name) &&
        !bench.wants(std::string(kFromPython) + task.name))
      continue;
    const auto all = run_rounds(bench.options.rounds, task.task, **cpp, python.get(), *floor);
    if (!all) return all.status();
    const double least = median(all->floor);
    bench.figures.push_back(rival_figure(task, kFromCpp, median(all->cpp), least));
    if (python)
      bench.figures.push_back(rival_figure(task, kFromPython, median(all->python), least));
  }
  return {};
}

}  // namespace kvsidecar
