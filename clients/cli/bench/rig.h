// SPDX-License-Identifier: Apache-2.0
// What the figures stand on: a daemon with a configuration of its own in a temporary directory, and
// an engine (client, memory, layout, namespace) attached to it. One thread.
#pragma once
#include <array>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "clients/cli/replay/daemon_process.h"
#include "clients/cpp/kvsidecar.hpp"
#include "ipc/result.h"

namespace kvsidecar {

struct RigOptions {
  uint64_t pool_bytes = 512ull << 20;
  uint32_t copy_threads = 1;  // 0: the daemon's default
  std::string spin_us = "auto";
  uint64_t store_bytes = 0;   // 0: no store
  std::string store_section;  // lines of [store] and what lies below it, instead of store_bytes
};

// The daemon ends and everything it wrote is removed with this object.
class BenchDaemon {
 public:
  static Result<std::unique_ptr<BenchDaemon>> start(const std::string& program,
                                                    const RigOptions& options);
  ~BenchDaemon();
  BenchDaemon(const BenchDaemon&) = delete;
  BenchDaemon& operator=(const BenchDaemon&) = delete;

  const std::string& socket() const { return socket_; }
  const std::string& folder() const { return folder_; }
  void stop();
  Status start_again();
  void remove_pool();  // the warm pool's files; stopped daemons only

 private:
  BenchDaemon(std::string folder, std::string pool);

  std::string folder_, pool_, socket_;
  std::optional<DaemonProcess> process_;
};

struct EngineShape {
  uint64_t page_bytes = 2ull << 20;
  uint32_t blocks = 64;
  uint64_t run_bytes = 0;  // 0: a block is one run; else it is cut into runs this long
  uint64_t spin_ns = 0;    // of the client; 0: the library's default, UINT64_MAX: never
  uint64_t timeout_ns = 30'000'000'000;
};

inline constexpr uint32_t kBenchKeyBytes = 16;

// Keys number, number + 1, … as one byte vector: spread over the whole range, never twice.
std::vector<std::byte> bench_keys(uint64_t number, uint32_t count);

class BenchEngine {
 public:
  static Result<std::unique_ptr<BenchEngine>> attach(const std::string& socket,
                                                     const EngineShape& shape);

  // Pages of keys number, number + 1, … from or into blocks 0, 1, …; nanoseconds from the call to
  // its end. Any item that isn't OK (put: or EXISTS) is an error.
  Result<double> put(uint64_t number, uint32_t count);
  Result<double> get(uint64_t number, uint32_t count);
  // `found`: pages that must be restorable.
  Result<double> lookup(const std::vector<std::byte>& keys, uint64_t found);
  // Later transfers use the blocks in another order.
  void shuffle_blocks();
  // The smallest request that the daemon answers.
  Result<double> empty_request();
  // Puts pages number .. number + count - 1 in batches.
  Status fill(uint64_t number, uint64_t count);
  std::optional<std::string> stat();

  client::Client& client() { return client_; }
  std::byte* block(uint32_t number);
  const EngineShape& shape() const { return shape_; }

 private:
  BenchEngine(client::Client client, const EngineShape& shape)
      : client_(std::move(client)), shape_(shape) {}
  Status prepare();
  Result<double> transfer(bool is_put, uint64_t number, uint32_t count);

  client::Client client_;
  EngineShape shape_;
  std::optional<client::Memory> memory_;
  kvs_layout layout_ = 0;
  kvs_namespace space_ = 0;
  std::vector<uint32_t> numbers_;
  std::mt19937 random_;  // seeded alike in every run
};

// The kvsidecard to measure: the one named, else beside this program, else in PATH.
Result<std::string> find_daemon(const std::string& named);

}  // namespace kvsidecar
