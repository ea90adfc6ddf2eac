// SPDX-License-Identifier: Apache-2.0
#include "sidecar/shell/config.h"

#include <sys/un.h>

#include <algorithm>
#include <cctype>
#include <numeric>
#include <thread>

#include "ipc/identity.h"
#include "sidecar/shell/config_keys.h"
#include "sidecar/shell/http.h"

namespace kvsidecar {
namespace {

Status check_path(const char* key, const std::string& path) {
  if (path.empty() || path.front() != '/')
    return invalid(std::string(key) + " = \"" + path + "\" must be an absolute path");
  // A zero byte would end the path early, a line break would end a log line.
  if (std::any_of(path.begin(), path.end(), [](unsigned char c) { return c < 0x20; }))
    return invalid(std::string(key) + " holds a control character; write the path without it");
  return {};
}

Status check_paths(const Config& config) {
  const std::pair<const char*, const std::string*> paths[] = {
      {"daemon.runtime_dir", &config.runtime_dir},
      {"daemon.state_dir", &config.state_dir},
      {"daemon.socket", &config.socket},
      {"host_pool.directory", &config.pool_directory}};
  for (const auto& [key, path] : paths)
    if (Status status = check_path(key, *path); !status.ok()) return status;
  if (config.socket.size() >= sizeof(sockaddr_un::sun_path))
    return invalid("daemon.socket = \"" + config.socket + "\" has " +
                   std::to_string(config.socket.size()) + " bytes, a socket's path takes " +
                   std::to_string(sizeof(sockaddr_un::sun_path) - 1) +
                   "; choose a shorter daemon.socket or daemon.runtime_dir");
  return {};
}

// The multiples of `unit` around a size: "64MiB" or "128MiB"; 0 is none.
std::string multiples_around(uint64_t bytes, uint64_t unit) {
  const uint64_t below = bytes / unit * unit;
  const std::string above = print_bytes(below + unit);
  return below == 0 ? above : print_bytes(below) + " or " + above;
}

Status check_multiple(const std::string& key, uint64_t bytes, const std::string& unit_key,
                      uint64_t unit, const std::string& remedy) {
  if (bytes % unit == 0) return {};
  return invalid(key + " = " + print_bytes(bytes) + " must be a multiple of " +
                 (unit_key.empty() ? "" : unit_key + " = ") + print_bytes(unit) + "; write " +
                 multiples_around(bytes, unit) + remedy);
}

// What smaller chunks would allow.
std::string smaller_chunks(const Config& config) {
  const uint64_t fitting = std::gcd(config.pool_bytes, config.chunk_bytes);
  if (fitting % config.span_bytes == 0)
    return ", or set host_pool.chunk_bytes = " + print_bytes(fitting);
  return ", or with smaller host_pool.chunk_bytes another multiple of host_pool.span_bytes = " +
         print_bytes(config.span_bytes);
}

Status check_pool(const Config& config) {
  Status status = check_multiple("host_pool.span_bytes", config.span_bytes, "", 4096, "");
  if (status.ok())
    status = check_multiple("host_pool.chunk_bytes", config.chunk_bytes, "host_pool.span_bytes",
                            config.span_bytes, "");
  if (status.ok() && config.pool_bytes != kAuto)
    status = check_multiple("host_pool.bytes", config.pool_bytes, "host_pool.chunk_bytes",
                            config.chunk_bytes, ", or \"auto\"" + smaller_chunks(config));
  if (!status.ok()) return status;
  const std::string& name = config.pool_name;
  const bool good = !name.empty() && name.size() <= 32 &&
                    std::all_of(name.begin(), name.end(), [](unsigned char c) {
                      return std::islower(c) || std::isdigit(c) || c == '-';
                    });
  if (!good)
    return invalid("host_pool.name = \"" + name +
                   "\" must be 1 to 32 of a-z, 0-9 and '-'; or leave it out");
  return {};
}

// What 3FS's own fuse daemon can map, and what it never does.
Status check_usrbio(const Config& config) {
  if (config.store_kind == StoreKind::kUsrbio && config.pool_directory != "/dev/shm")
    return invalid("host_pool.directory = \"" + config.pool_directory +
                   "\" must be \"/dev/shm\" with store.kind = \"usrbio\": 3FS's fuse daemon maps "
                   "only files directly there");
  if (Status status =
          check_multiple("store.usrbio.chunk_bytes", config.usrbio_chunk_bytes, "", 4096, "");
      !status.ok())
    return status;
  if (config.usrbio_library.empty()) return {};
  if (config.usrbio_client == UsrbioClient::kBuiltin)
    return invalid("store.usrbio.library = \"" + config.usrbio_library +
                   "\" isn't used with store.usrbio.client = \"builtin\"; remove one of the two");
  return check_path("store.usrbio.library", config.usrbio_library);
}

Status check_store(const Config& config) {
  if (config.store_kind == StoreKind::kNone) return {};
  if (config.store_root.empty())
    return invalid(std::string("store.kind = \"") +
                   (config.store_kind == StoreKind::kFile ? "file" : "usrbio") +
                   "\" needs store.root: name the directory for the pages");
  if (Status status = check_usrbio(config); !status.ok()) return status;
  if (Status status = check_path("store.root", config.store_root); !status.ok()) return status;
  const uint64_t capacity = config.limits.store_capacity_bytes;
  if (capacity != kAuto && capacity < 2 * config.segment_bytes)
    return invalid("store.capacity_bytes = " + print_bytes(capacity) +
                   " must be at least two segments of store.segment_bytes = " +
                   print_bytes(config.segment_bytes) + "; write " +
                   print_bytes(2 * config.segment_bytes) +
                   " or more, or lower store.segment_bytes");
  return {};
}

}  // namespace

std::string pool_name_for(const std::string& runtime_dir) {
  const Hash128 hash = namespace_id(std::as_bytes(std::span(runtime_dir)));
  return to_hex(hash).substr(0, 12);
}

Result<Config> finish_config(Config config) {
  while (config.runtime_dir.size() > 1 && config.runtime_dir.back() == '/')
    config.runtime_dir.pop_back();
  if (config.socket.empty()) config.socket = config.runtime_dir + "/kvsidecar.sock";
  if (config.pool_name.empty()) config.pool_name = pool_name_for(config.runtime_dir);
  const uint32_t cores = std::max(1u, std::thread::hardware_concurrency());
  if (config.copy_threads == 0) config.copy_threads = std::clamp(cores / 4, 1u, 8u);
  if (config.hash_threads == 0) config.hash_threads = std::clamp(cores / 8, 1u, 4u);
  if (config.store_kind == StoreKind::kAuto && config.store_root.empty())
    config.store_kind = StoreKind::kNone;
  if (config.store_kind == StoreKind::kNone) config.limits.store_capacity_bytes = 0;
  if (Status status = check_paths(config); !status.ok()) return status;
  if (Status status = check_pool(config); !status.ok()) return status;
  if (Status status = check_store(config); !status.ok()) return status;
  if (!config.metrics_listen.empty())
    if (Status status = check_listen(config.metrics_listen); !status.ok()) return status;
  return config;
}

}  // namespace kvsidecar
