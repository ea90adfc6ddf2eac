// SPDX-License-Identifier: Apache-2.0
#include <poll.h>

#include <cstdint>
#include <filesystem>
#include <fstream>

#include "clients/cli/bench/measure.h"
#include "ipc/os.h"

namespace kvsidecar {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kSessions = 8;
constexpr int kPieceMs = 1000;

// Nanoseconds that all threads of a process have run.
uint64_t run_ns(int pid) {
  uint64_t sum = 0;
  std::error_code ignored;
  for (const auto& task :
       fs::directory_iterator("/proc/" + std::to_string(pid) + "/task", ignored)) {
    uint64_t ran = 0;
    std::ifstream(task.path() / "schedstat") >> ran;
    sum += ran;
  }
  return sum;
}

}  // namespace

Status measure_idle(Bench& bench) {
  RigOptions rig;
  rig.pool_bytes = 64ull << 20;
  auto daemon = BenchDaemon::start(bench.daemon, rig);
  if (!daemon) return daemon.status();
  EngineShape shape;
  shape.page_bytes = 64 << 10;
  shape.blocks = 4;
  std::vector<std::unique_ptr<BenchEngine>> engines;
  for (uint32_t i = 0; i < kSessions; ++i) {
    auto engine = BenchEngine::attach((*daemon)->socket(), shape);
    if (!engine) return engine.status();
    engines.push_back(engine.take());
  }
  kvs_connection connection{};
  connection.struct_size = sizeof connection;
  if (kvs_connection_get(engines[0]->client().c(), &connection) != KVS_OK ||
      connection.daemon_pid == 0)
    return {Code::kUnavailable, "the daemon's process can't be seen"};
  std::vector<double> shares;
  (void)poll(nullptr, 0, kPieceMs);  // what starting left to do
  for (uint32_t round = 0; round < bench.options.rounds; ++round) {
    const uint64_t begin = monotonic_ns(), ran = run_ns(connection.daemon_pid);
    (void)poll(nullptr, 0, kPieceMs);
    shares.push_back(100 * static_cast<double>(run_ns(connection.daemon_pid) - ran) /
                     static_cast<double>(monotonic_ns() - begin));
  }
  Figure figure;
  figure.name = "idle daemon";
  figure.value = median(shares);
  figure.unit = "% of a core";
  figure.value_limit = 0.5;
  figure.note = "8 sessions, all threads";
  bench.figures.push_back(figure);
  return {};
}

}  // namespace kvsidecar
