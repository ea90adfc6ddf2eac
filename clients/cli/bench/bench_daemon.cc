// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "clients/cli/await_pool.h"
#include "clients/cli/bench/rig.h"
#include "ipc/os.h"

namespace kvsidecar {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kChunkBytes = 64ull << 20, kSpanBytes = 16ull << 20;
constexpr const char* kShm = "/dev/shm";

std::string config_text(const std::string& folder, const std::string& pool,
                        const RigOptions& options) {
  const uint64_t pool_bytes = (options.pool_bytes + kChunkBytes - 1) / kChunkBytes * kChunkBytes;
  std::string spin = options.spin_us == "auto" ? "\"auto\"" : options.spin_us;
  std::string text = "[daemon]\nruntime_dir = \"" + folder + "/run\"\nstate_dir = \"" + folder +
                     "/state\"\nlog_level = \"warning\"\nspin_us = " + spin +
                     "\n\n[host_pool]\nbytes = \"" + std::to_string(pool_bytes) +
                     "\"\nchunk_bytes = \"" + std::to_string(kChunkBytes) + "\"\nspan_bytes = \"" +
                     std::to_string(kSpanBytes) + "\"\nname = \"" + pool +
                     "\"\n\n[copy]\nthreads = " + std::to_string(options.copy_threads) +
                     "\n\n[metrics]\nlisten = \"\"\n\n[store]\n";
  if (!options.store_section.empty())
    text += options.store_section;
  else if (options.store_bytes == 0)
    text += "kind = \"none\"\n";
  else
    text += "kind = \"file\"\nroot = \"" + folder + "/store\"\ncapacity_bytes = \"" +
            std::to_string(options.store_bytes) + "\"\nsegment_bytes = \"64MiB\"\n";
  return text + "\n[[allow]]\nuid = " + std::to_string(getuid()) +
         "\npermissions = [\"read\", \"put\", \"clear\", \"admin\"]\n";
}

bool is_program(const fs::path& path) { return access(path.c_str(), X_OK) == 0; }

}  // namespace

BenchDaemon::BenchDaemon(std::string folder, std::string pool)
    : folder_(std::move(folder)),
      pool_(std::move(pool)),
      socket_(folder_ + "/run/kvsidecar.sock") {}

BenchDaemon::~BenchDaemon() {
  stop();
  remove_pool();
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

Result<std::unique_ptr<BenchDaemon>> BenchDaemon::start(const std::string& program,
                                                        const RigOptions& options) {
  const char* tmp = std::getenv("TMPDIR");
  std::string folder =
      std::string(tmp != nullptr && *tmp != '\0' ? tmp : "/tmp") + "/kvsidecar-bench.XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return os_error("mkdtemp of " + folder, errno);
  static uint32_t number = 0;
  const std::string pool = "bench-" + std::to_string(getpid()) + "-" + std::to_string(++number);
  std::unique_ptr<BenchDaemon> daemon(new BenchDaemon(folder, pool));
  std::error_code error;
  for (const char* name : {"/run", "/state", "/store"}) fs::create_directory(folder + name, error);
  const std::string config = folder + "/kvsidecar.toml";
  std::ofstream(config) << config_text(folder, pool, options);
  daemon->process_.emplace(program, config, daemon->socket_);
  if (Status started = daemon->process_->start(); !started.ok()) return started;
  // Until all of it stands, its making slows everything.
  if (Status ready = await_pool(daemon->socket_, options.pool_bytes); !ready.ok()) return ready;
  return daemon;
}

void BenchDaemon::stop() {
  if (process_) process_->stop();
}

Status BenchDaemon::start_again() { return process_->start(); }

void BenchDaemon::remove_pool() {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(kShm, ignored))
    if (entry.path().filename().string().rfind("kvsidecar." + pool_ + ".", 0) == 0)
      fs::remove(entry.path(), ignored);
}

Result<std::string> find_daemon(const std::string& named) {
  if (!named.empty()) {
    if (is_program(named)) return fs::absolute(named).string();
    return invalid("--daemon is " + named + ", which can't be run; name a kvsidecard");
  }
  std::error_code error;
  const fs::path own = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const char* beside : {"kvsidecard", "../sbin/kvsidecard", "../../sidecar/shell/kvsidecard"})
    if (is_program(own / beside)) return (own / beside).lexically_normal().string();
  std::string path = std::getenv("PATH") != nullptr ? std::getenv("PATH") : "";
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find(':', at), path.size());
    const fs::path found = fs::path(path.substr(at, end - at)) / "kvsidecard";
    if (is_program(found)) return found.string();
    at = end + 1;
  }
  return invalid("no kvsidecard beside this program or in PATH; name one with --daemon");
}

}  // namespace kvsidecar
