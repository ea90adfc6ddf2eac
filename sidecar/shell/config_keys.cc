// SPDX-License-Identifier: Apache-2.0
#include "sidecar/shell/config_keys.h"

#include <type_traits>

namespace kvsidecar {
namespace {

constexpr uint64_t kSecond = 1'000'000'000, kMillisecond = 1'000'000, kMicrosecond = 1'000;
constexpr uint64_t kKiB = 1024, kMiB = 1024 * kKiB, kGiB = 1024 * kMiB, kTiB = 1024 * kGiB;

// The address of a member of Config, or of its Limits; enums as the byte they are stored in.
template <auto kMember>
auto* at(Config& config) {
  auto* field = [&] {
    if constexpr (std::is_invocable_v<decltype(kMember), Config&>)
      return &(config.*kMember);
    else
      return &(config.limits.*kMember);
  }();
  if constexpr (std::is_enum_v<std::remove_pointer_t<decltype(field)>>)
    return reinterpret_cast<uint8_t*>(field);
  else
    return field;
}

ConfigKey text(const char* section, const char* name, std::string* (*field)(Config&),
               const char* help) {
  return {section, name, KeyType::kText, field, help};
}
ConfigKey count(const char* section, const char* name, uint32_t* (*field)(Config&), uint64_t min,
                uint64_t max, const char* help) {
  return {section, name, KeyType::kCount, field, help, min, max};
}
ConfigKey count64(const char* section, const char* name, uint64_t* (*field)(Config&), uint64_t min,
                  uint64_t max, const char* help) {
  return {section, name, KeyType::kCount, field, help, min, max};
}
ConfigKey bytes(const char* section, const char* name, uint64_t* (*field)(Config&), uint64_t min,
                uint64_t max, const char* help, bool takes_auto = false) {
  return {section, name, KeyType::kBytes, field, help, min, max, takes_auto};
}
ConfigKey duration(const char* section, const char* name, uint64_t* (*field)(Config&),
                   uint64_t scale, uint64_t min, uint64_t max, const char* help,
                   bool takes_auto = false) {
  return {section, name, KeyType::kDuration, field, help, min, max, takes_auto, scale};
}
ConfigKey choice(const char* section, const char* name, uint8_t* (*field)(Config&),
                 const char* choices, const char* help) {
  return {section, name, KeyType::kChoice, field, help, 0, 0, false, 1, choices};
}

const ConfigKey kKeys[] = {
    text("daemon", "runtime_dir", at<&Config::runtime_dir>,
         "Directory of the socket and the pid file. One daemon per runtime directory."),
    text("daemon", "socket", at<&Config::socket>,
         "Path of the socket that clients connect to. Empty: kvsidecar.sock in runtime_dir."),
    text("daemon", "state_dir", at<&Config::state_dir>,
         "Directory of what must survive a restart: the node's uuid, the epoch, the generations."),
    choice("daemon", "log_level", at<&Config::log_level>, "debug|info|warning|error",
           "The least severe events that are logged."),
    duration("daemon", "supervisor_timeout_s", at<&Config::supervisor_timeout_ns>, kSecond, 0, 3600,
             "A daemon that makes no progress for so long is killed and started again. 0: never."),
    duration("daemon", "drain_timeout_s", at<&Config::drain_timeout_ns>, kSecond, 0, 3600,
             "How long SIGTERM waits for running requests and queued writes before the end."),
    duration(
        "daemon", "spin_us", at<&Config::spin_ns>, kMicrosecond, 0, 1'000'000,
        "How long the conductor looks for more work before it sleeps. auto: 100 while work has "
        "lately come that soon, else 0.",
        true),

    bytes("host_pool", "bytes", at<&Config::pool_bytes>, 64 * kKiB, 64 * kTiB,
          "Memory that holds pages, a multiple of chunk_bytes. auto: half of what is free in "
          "directory.",
          true),
    bytes("host_pool", "chunk_bytes", at<&Config::chunk_bytes>, 64 * kKiB, 64 * kGiB,
          "Size of one chunk: the unit of files and pinning. A change drops the warm pool."),
    bytes("host_pool", "span_bytes", at<&Config::span_bytes>, 64 * kKiB, kGiB,
          "Size of one span, which serves one page size. A change drops the warm pool."),
    text("host_pool", "directory", at<&Config::pool_directory>,
         "Where the chunks' files lie: a tmpfs, or hugetlbfs."),
    text("host_pool", "name", at<&Config::pool_name>,
         "Name of the pool in directory, 1 to 32 of a-z, 0-9, '-'. Empty: made from runtime_dir."),

    count("copy", "threads", at<&Config::copy_threads>, 0, 64,
          "Copy workers of the host device. 0: a quarter of the cores, 1 to 8."),
    bytes(
        "copy", "inline_bytes", at<&Limits::inline_copy_bytes>, 0, 512 * kKiB,
        "Copies up to this size are made by the conductor itself when it has nothing else to do."),
    count("hash", "threads", at<&Config::hash_threads>, 0, 64,
          "Workers that check digests. 0: an eighth of the cores, 1 to 4."),

    choice("store", "kind", at<&Config::store_kind>, "auto|file|usrbio|none",
           "How the store is reached. auto: usrbio where root lies on a 3FS mount, else file; none "
           "without a root."),
    text("store", "root", at<&Config::store_root>, "Directory of the pages behind the host pool."),
    bytes("store", "capacity_bytes", at<&Limits::store_capacity_bytes>, 0, 1024 * kTiB,
          "Space that this node's pages may take. auto: 80 % of what is free or already its own.",
          true),
    bytes("store", "segment_bytes", at<&Config::segment_bytes>, kMiB, 16 * kGiB,
          "Size of one segment file: space comes back in these."),
    count("store", "depth", at<&Limits::store_depth>, 1, 1024,
          "Reads and writes that are with the store at once."),
    duration("store", "stall_ms", at<&Limits::store_stall_ns>, kMillisecond, 1, 600'000,
             "An operation that takes longer opens the breaker: gets are misses until it heals."),
    bytes("store", "write_behind_bytes", at<&Limits::write_behind_bytes>, 0, 64 * kTiB,
          "Pages that may wait to be written. Beyond it the coldest write is dropped."),
    bytes("store", "write_bytes_per_s", at<&Limits::write_bytes_per_s>, 0, 1024 * kGiB,
          "Limit of write-behind, against wear. 0: none."),
    choice("store", "admission", at<&Limits::admission>, "at_once|second_use|at_eviction",
           "When a page goes to the store."),
    choice("store", "verify", at<&Limits::verify>, "always|first|store",
           "Which bytes are checked against their digest: those of the store and of an earlier "
           "daemon (store), also each page at its first get (first), each page at each get "
           "(always)."),

    choice("store.usrbio", "client", at<&Config::usrbio_client>, "auto|library|builtin",
           "Who speaks USRBIO: 3FS's own library, or the client built in. auto: the library where "
           "it is found, else builtin."),
    text("store.usrbio", "library", at<&Config::usrbio_library>,
         "libhf3fs_api_shared.so, or a directory that holds it. Empty: what the loader finds."),
    bytes("store.usrbio", "chunk_bytes", at<&Config::usrbio_chunk_bytes>, 4 * kKiB, kGiB,
          "Chunk size of the directory on 3FS; each request lies in one chunk."),
    count("store.usrbio", "ring_entries", at<&Config::usrbio_ring_entries>, 1, 65536,
          "Requests that each of the three rings (demand reads, prefetches, writes) holds."),

    count("limits", "sessions_max", at<&Limits::sessions_max>, 1, 65536,
          "Clients attached at once."),
    count("limits", "groups_max", at<&Limits::groups_max>, 1, 65536, "Engines at once."),
    count("limits", "namespaces_max", at<&Limits::namespaces_max>, 1, 1'000'000,
          "Namespaces known at once."),
    count("limits", "regions_per_session", at<&Limits::regions_per_session>, 1, 65536,
          "Regions that one session may register."),
    count("limits", "layouts_per_session", at<&Limits::layouts_per_session>, 1, 65536,
          "Block layouts that one session may register."),
    duration("limits", "deadline_max_s", at<&Limits::deadline_max_ns>, kSecond, 1, 86400,
             "How far ahead a request's deadline may lie."),
    duration("limits", "lease_ms_max", at<&Limits::lease_max_ns>, kMillisecond, 1, 86'400'000,
             "The longest lease; a longer one that is asked for becomes this."),
    count64("limits", "leases_per_session", at<&Limits::lease_pages_per_session>, 0, 1ull << 32,
            "Pages that one session may hold by leases. Beyond it lookup answers without a lease."),
    count("limits", "leases_percent", at<&Limits::lease_share_percent>, 0, 90,
          "Share of the host pool's bytes that all leases together may hold."),
    duration("limits", "parts_timeout_s", at<&Limits::parts_timeout_ns>, kSecond, 1, 86400,
             "A page whose other parts don't come within this time is dropped."),

    text("metrics", "listen", at<&Config::metrics_listen>,
         "Address and port of /metrics, /healthz and /readyz. Port 0 picks one; empty: none."),
};

const AllowKey kAllowKeys[] = {
    {"uid", "number or list", "Users, by number.", "[1000]"},
    {"gid", "number or list", "Groups, by number; supplementary groups count.", "[]"},
    {"user", "text or list", "Users, by name.", "[]"},
    {"group", "text or list", "Groups, by name.", "[\"engines\"]"},
    {"permissions", "list", "What they may do: read, put, clear, admin. Default: read, put.",
     "[\"read\", \"put\", \"clear\"]"},
    {"tenant_salts", "list",
     "Tenant salts they may name; \"*\": any, \"\": none named. Default: any.", "[\"*\"]"},
    {"pool_bytes_max", "bytes",
     "Host pool that their pages may take together, tables and unused ends of spans included. "
     "0: no limit.",
     "0"},
    {"store_bytes_max", "bytes", "Store they may fill together. 0: no limit.", "0"},
    {"bytes_in_flight_max", "bytes", "Bytes being copied for them at once. 0: no limit.",
     "\"1GiB\""},
    {"region_bytes_max", "bytes", "Memory they may register. 0: no limit.", "0"},
    {"sessions_max", "number", "Sessions they may have at once. 0: no limit.", "16"},
    {"namespaces_max", "number",
     "Namespaces that they use or have pages of at once. 0: no limit. Default: 1024.", "1024"},
};

}  // namespace

std::span<const ConfigKey> config_keys() { return kKeys; }
std::span<const AllowKey> allow_keys() { return kAllowKeys; }

}  // namespace kvsidecar
