// SPDX-License-Identifier: Apache-2.0
// What the doctor makes of what it found: facts in, verdicts with remedies out. Pure; any thread.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ipc/status.h"

namespace kvsidecar {

enum class Verdict : uint8_t { kOk, kWarn, kFail };

struct Check {
  std::string name;
  Verdict verdict = Verdict::kOk;
  std::string text;
  std::string remedy;  // empty when ok
};

struct SocketFacts {
  std::string path;
  int stat_error = 0;  // errno of stat; 0: it is there
  bool is_socket = false;
  uint32_t mode = 0;  // permission bits
  std::string owner, group;
  bool in_group = false;     // this process has the socket's group
  bool may_connect = false;  // access() for writing
  int connect_error = 0;     // errno of connect; 0: somebody listens
};
Check check_socket(const SocketFacts& facts);

// How opening a session ended.
Check check_session(Code code, const std::string& text, int daemon_pid);

struct PoolFiles {
  std::string pool;  // kvsidecar.<pool>.<number>
  uint64_t files = 0, bytes = 0;
  bool mapped = false;  // a living process maps them
};
struct ShmFacts {
  std::string directory;
  int error = 0;
  uint64_t total_bytes = 0, free_bytes = 0;
  std::vector<PoolFiles> pools;
  bool saw_all_processes = false;  // else mappings of other users' processes are unknown
};
Check check_shm_size(const ShmFacts& facts);
Check check_shm_leftovers(const ShmFacts& facts);

// soft limit in bytes; nullopt: unlimited. `whose`: "this shell" or "the daemon".
Check check_memlock(const std::string& whose, std::optional<uint64_t> limit_bytes);
Check check_io_uring(int error);  // errno of io_uring_setup; 0: it works
// error: errno of an O_DIRECT write in the directory; 0: it works. directory empty: not known.
Check check_direct(const std::string& directory, int error);
// What the daemon says of its store ("file (O_DIRECT)", "usrbio (…)", "none").
Check check_store(const std::string& described);
Check check_digest(bool avx2, bool avx512);
Check check_kernel(const std::string& release);

// The value of `root` in the [store] table of a configuration file; empty when it isn't there.
std::string store_root_in(const std::string& config_text);

std::string check_text(const Check& check);  // a line, and one with the remedy
std::string checks_json(const std::vector<Check>& checks);

}  // namespace kvsidecar
