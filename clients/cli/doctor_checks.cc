// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/doctor_checks.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "clients/cli/config_value.h"
#include "clients/cli/print.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kShmLeastBytes = 256ull << 20;
constexpr uint64_t kMemlockLeastBytes = 64ull << 20;

const char* verdict_name(Verdict verdict) {
  return verdict == Verdict::kOk ? "ok" : verdict == Verdict::kWarn ? "warn" : "fail";
}

Check ok(const char* name, std::string text) { return {name, Verdict::kOk, std::move(text), ""}; }
Check warn(const char* name, std::string text, std::string remedy) {
  return {name, Verdict::kWarn, std::move(text), std::move(remedy)};
}
Check bad(const char* name, std::string text, std::string remedy) {
  return {name, Verdict::kFail, std::move(text), std::move(remedy)};
}

std::string mode_text(const SocketFacts& f) {
  char mode[8];
  std::snprintf(mode, sizeof mode, "%04o", f.mode);
  return std::string(mode) + " " + f.owner + ":" + f.group;
}

}  // namespace

Check check_socket(const SocketFacts& f) {
  constexpr const char* kName = "socket";
  if (f.stat_error == EACCES)
    return bad(kName, f.path + ": its directory may not be entered",
               "add this user to the group that owns the directory: usermod -aG kvsidecar USER");
  if (f.stat_error != 0)
    return bad(kName, f.path + ": " + std::strerror(f.stat_error),
               "start the daemon (systemctl start kvsidecar), or name its socket with --socket");
  if (!f.is_socket)
    return bad(kName, f.path + " is not a socket", "name the daemon's socket with --socket");
  if (!f.may_connect)
    return bad(kName,
               f.path + " (" + mode_text(f) + ") may not be written by this user" +
                   (f.in_group ? "" : ", who isn't in its group"),
               "usermod -aG " + f.group + " USER, then log in again");
  if (f.connect_error == ECONNREFUSED)
    return bad(kName, f.path + ": nobody listens; a daemon that has ended left it",
               "start the daemon: systemctl start kvsidecar");
  if (f.connect_error != 0)
    return bad(kName, f.path + ": connect: " + std::strerror(f.connect_error),
               "look at the daemon's log: journalctl -u kvsidecar");
  if ((f.mode & 0007) != 0)
    return warn(kName, f.path + " (" + mode_text(f) + ") is open to every user",
                "chmod o-rwx, or let the daemon make it (0660)");
  return ok(kName, f.path + " (" + mode_text(f) + ") answers");
}

Check check_session(Code code, const std::string& text, int daemon_pid) {
  constexpr const char* kName = "session";
  if (code == Code::kOk && daemon_pid == 0)
    return warn(kName, "the daemon's process can't be seen from here",
                "run daemon and engines in one PID namespace (containers: pid: host)");
  if (code == Code::kOk) return ok(kName, "opened with process " + std::to_string(daemon_pid));
  if (code == Code::kDenied)
    return bad(kName, text, "list this user in an [[allow]] entry of kvsidecar.toml");
  if (code == Code::kUnsupportedVersion)
    return bad(kName, text, "install daemon and client library of one release");
  return bad(kName, text, "look at the daemon's log: journalctl -u kvsidecar");
}

Check check_shm_size(const ShmFacts& f) {
  constexpr const char* kName = "shm size";
  if (f.error != 0)
    return bad(kName, f.directory + ": " + std::strerror(f.error), "mount a tmpfs there");
  const std::string text =
      f.directory + ": " + bytes_text(f.free_bytes) + " free of " + bytes_text(f.total_bytes);
  uint64_t in_pools = 0;
  for (const PoolFiles& pool : f.pools) in_pools += pool.bytes;
  if (f.free_bytes + in_pools < kShmLeastBytes)
    return warn(kName, text,
                "mount -o remount,size=50% " + f.directory +
                    " (containers: --shm-size), or a smaller host_pool.bytes");
  return ok(kName, text + ", " + bytes_text(in_pools) + " in host pools");
}

Check check_shm_leftovers(const ShmFacts& f) {
  constexpr const char* kName = "shm leftovers";
  std::string dead;
  for (const PoolFiles& pool : f.pools)
    if (!pool.mapped)
      dead += (dead.empty() ? "" : ", ") + pool.pool + " (" + bytes_text(pool.bytes) + ")";
  if (dead.empty()) return ok(kName, "every pool in " + f.directory + " is in use");
  const std::string unsure = f.saw_all_processes ? "" : " as far as this user can see";
  return warn(kName, "no process uses these pools" + unsure + ": " + dead,
              "start their daemon, which finds its pages again, or rm " + f.directory +
                  "/kvsidecar.NAME.*");
}

Check check_memlock(const std::string& whose, std::optional<uint64_t> limit_bytes) {
  constexpr const char* kName = "memlock";
  if (!limit_bytes) return ok(kName, whose + " may lock all memory");
  const std::string text = whose + " may lock " + bytes_text(*limit_bytes);
  if (*limit_bytes >= kMemlockLeastBytes) return ok(kName, text);
  return warn(kName, text + ": memory isn't pinned, I/O buffers aren't registered",
              "LimitMEMLOCK=infinity in the unit, or ulimit -l unlimited");
}

Check check_io_uring(int error) {
  constexpr const char* kName = "io_uring";
  if (error == 0) return ok(kName, "works");
  return bad(kName, std::string("io_uring_setup: ") + std::strerror(error),
             error == ENOSYS ? "use a kernel with io_uring (5.11 or later)"
                             : "sysctl kernel.io_uring_disabled=0, and let the container's seccomp "
                               "profile allow io_uring_setup");
}

Check check_direct(const std::string& directory, int error) {
  constexpr const char* kName = "O_DIRECT";
  if (directory.empty())
    return warn(kName, "the store's directory isn't known", "name it with --store or --config");
  if (error == 0) return ok(kName, directory + " takes O_DIRECT");
  if (error == EINVAL || error == EOPNOTSUPP)
    return warn(kName, directory + " has no O_DIRECT: the store goes through the page cache",
                "use a file system that has it (ext4, xfs), not tmpfs or overlayfs");
  return bad(kName, directory + ": " + std::strerror(error),
             "make the directory, owned by the daemon's user");
}

Check check_store(const std::string& described) {
  constexpr const char* kName = "store";
  if (described == "none")
    return warn(kName, "none: evicted pages are gone", "set store.root in kvsidecar.toml");
  if (described.rfind("usrbio", 0) == 0) {
    const bool away = described.find("misses until") != std::string::npos;
    return away ? bad(kName, described,
                      "look after 3FS's fuse daemon; the store comes back by itself")
                : ok(kName, described);
  }
  if (described.find("O_DIRECT") == std::string::npos)
    return warn(kName, described + ", through the page cache",
                "use a file system with O_DIRECT (ext4, xfs)");
  return ok(kName, described);
}

Check check_digest(bool avx2, bool avx512) {
  constexpr const char* kName = "digest";
  if (avx512) return ok(kName, "avx512");
  if (avx2) return ok(kName, "avx2");
  return warn(kName, "baseline: this CPU has no AVX2, puts are slower",
              "give the virtual machine the host's CPU flags");
}

Check check_kernel(const std::string& release) {
  constexpr const char* kName = "kernel";
  int major = 0, minor = 0;
  if (std::sscanf(release.c_str(), "%d.%d", &major, &minor) != 2)
    return warn(kName, release + ": not a version that is understood", "use Linux 5.11 or later");
  if (major < 5 || (major == 5 && minor < 11))
    return bad(kName, release + " lacks pidfds or the io_uring calls of the store",
               "use Linux 5.11 or later");
  return ok(kName, release);
}

std::string store_root_in(const std::string& config_text) {
  return config_value(config_text, "store", "root");
}

std::string check_text(const Check& check) {
  std::string name = check.name;
  name.resize(std::max<size_t>(name.size(), 14), ' ');
  std::string verdict = verdict_name(check.verdict);
  verdict.resize(5, ' ');
  std::string out = verdict + " " + name + " " + check.text + "\n";
  if (!check.remedy.empty()) out += std::string(21, ' ') + "-> " + check.remedy + "\n";
  return out;
}

std::string checks_json(const std::vector<Check>& checks) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Check& check : checks)
    list.push_back({{"check", check.name},
                    {"verdict", verdict_name(check.verdict)},
                    {"text", check.text},
                    {"remedy", check.remedy}});
  return list.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace kvsidecar
