// SPDX-License-Identifier: Apache-2.0
// The configuration of one daemon: every key of kvsidecar.toml as a value. Made by config_file.h
// (or by hand in tests), completed by finish_config(), then never changed. Any thread may read it.
// The keys themselves, with type, default and help, are one table: config_keys.h.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "ipc/result.h"
#include "sidecar/limits.h"

namespace kvsidecar {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarning, kError };
// kAuto with a root is resolved when the store is opened: usrbio on a 3FS mount, file elsewhere.
enum class StoreKind : uint8_t { kAuto, kFile, kUsrbio, kNone };
enum class UsrbioClient : uint8_t { kAuto, kLibrary, kBuiltin };

inline constexpr uint64_t kAuto = ~0ull;  // "auto" where a key takes it; resolved by the daemon

// One [[allow]] table: who it matches, by any of the four lists, and what he may do.
struct AllowEntry {
  std::vector<uint32_t> uids, gids;  // numbers, and names resolved when the file was read
  Permissions permissions;
};

struct Config {
  std::string source;  // the file that was read; empty: defaults only
  std::string runtime_dir = "/run/kvsidecar";
  std::string socket;  // empty: runtime_dir + "/kvsidecar.sock"
  std::string state_dir = "/var/lib/kvsidecar";
  LogLevel log_level = LogLevel::kInfo;
  uint64_t supervisor_timeout_ns = 10'000'000'000;
  uint64_t drain_timeout_ns = 20'000'000'000;
  uint64_t spin_ns = kAuto;  // how long the conductor looks for work before it sleeps

  uint64_t pool_bytes = kAuto;
  uint64_t chunk_bytes = 1ull << 30;
  uint64_t span_bytes = 16ull << 20;
  std::string pool_directory = "/dev/shm";
  std::string pool_name;  // empty: derived from the runtime directory

  uint32_t copy_threads = 0;  // 0: by the number of cores
  uint32_t hash_threads = 0;

  StoreKind store_kind = StoreKind::kAuto;
  std::string store_root;
  uint64_t segment_bytes = 256ull << 20;
  UsrbioClient usrbio_client = UsrbioClient::kAuto;
  std::string usrbio_library;  // a file, a folder that holds it, or empty: what the loader finds
  uint64_t usrbio_chunk_bytes = 1ull << 20;
  uint32_t usrbio_ring_entries = 128;

  std::string metrics_listen = "127.0.0.1:9418";  // empty: no HTTP at all

  Limits limits;  // store_capacity_bytes may be kAuto until the daemon resolves it
  std::vector<AllowEntry> allow;

  Config() { limits.store_capacity_bytes = kAuto; }
};

// Fills in what is derived (socket, pool name, thread counts, no store without a root) and checks
// keys against each other. The error names key, value and remedy.
Result<Config> finish_config(Config config);

// The pool's name for a runtime directory: two daemons on one node don't collide.
std::string pool_name_for(const std::string& runtime_dir);

}  // namespace kvsidecar
