// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/doctor_facts.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>

#include "ipc/os.h"

namespace kvsidecar {
namespace {

constexpr size_t kDirectBytes = 4096;
constexpr const char* kChunkPrefix = "kvsidecar.";

int connect_error(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return ENAMETOOLONG;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd) return errno;
  const auto* name = reinterpret_cast<const sockaddr*>(&address);
  return connect(fd.get(), name, sizeof address) == 0 ? 0 : errno;
}

bool has_group(gid_t gid) {
  std::vector<gid_t> groups(static_cast<size_t>(std::max(getgroups(0, nullptr), 0)));
  const int count = getgroups(static_cast<int>(groups.size()), groups.data());
  groups.resize(static_cast<size_t>(std::max(count, 0)));
  return getegid() == gid || std::find(groups.begin(), groups.end(), gid) != groups.end();
}

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(opendir(directory.c_str()), closedir);
  if (!open) return names;
  while (const dirent* entry = readdir(open.get())) names.emplace_back(entry->d_name);
  return names;
}

// Paths under `prefix` that processes map; complete turns false where one can't be looked into.
std::set<std::string> mapped_paths(const std::string& prefix, bool& complete) {
  std::set<std::string> paths;
  for (const std::string& pid : names_in("/proc")) {
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream maps("/proc/" + pid + "/maps");
    if (!maps && errno == EACCES) complete = false;
    for (std::string line; std::getline(maps, line);)
      if (const size_t at = line.find(prefix); at != std::string::npos)
        paths.insert(line.substr(at, line.find(" (deleted)") - at));
  }
  return paths;
}

// "kvsidecar.NAME.7" -> NAME; empty for other files.
std::string pool_of(const std::string& file) {
  const size_t start = std::strlen(kChunkPrefix), dot = file.rfind('.');
  if (file.rfind(kChunkPrefix, 0) != 0 || dot == std::string::npos || dot <= start) return "";
  if (dot + 1 == file.size() || file.find_first_not_of("0123456789", dot + 1) != std::string::npos)
    return "";
  return file.substr(start, dot - start);
}

}  // namespace

SocketFacts socket_facts(const std::string& path) {
  SocketFacts facts;
  facts.path = path;
  struct stat found {};
  if (stat(path.c_str(), &found) != 0) {
    facts.stat_error = errno;
    return facts;
  }
  facts.is_socket = S_ISSOCK(found.st_mode);
  facts.mode = found.st_mode & 07777;
  const passwd* owner = getpwuid(found.st_uid);
  facts.owner = owner != nullptr ? owner->pw_name : std::to_string(found.st_uid);
  const group* members = getgrgid(found.st_gid);
  facts.group = members != nullptr ? members->gr_name : std::to_string(found.st_gid);
  facts.in_group = has_group(found.st_gid);
  facts.may_connect = access(path.c_str(), W_OK) == 0;
  if (facts.is_socket && facts.may_connect) facts.connect_error = connect_error(path);
  return facts;
}

ShmFacts shm_facts(const std::string& directory) {
  ShmFacts facts;
  facts.directory = directory;
  struct statvfs space {};
  if (statvfs(directory.c_str(), &space) != 0) {
    facts.error = errno;
    return facts;
  }
  facts.total_bytes = space.f_blocks * space.f_frsize;
  facts.free_bytes = space.f_bavail * space.f_frsize;
  facts.saw_all_processes = true;
  const std::set<std::string> mapped =
      mapped_paths(directory + "/" + kChunkPrefix, facts.saw_all_processes);
  for (const std::string& file : names_in(directory)) {
    const std::string pool = pool_of(file), path = directory + "/" + file;
    struct stat found {};
    if (pool.empty() || stat(path.c_str(), &found) != 0) continue;
    auto at = std::find_if(facts.pools.begin(), facts.pools.end(),
                           [&](const PoolFiles& known) { return known.pool == pool; });
    if (at == facts.pools.end()) at = facts.pools.insert(at, PoolFiles{pool});
    ++at->files;
    at->bytes += static_cast<uint64_t>(found.st_blocks) * 512;
    at->mapped = at->mapped || mapped.count(path) != 0;
  }
  return facts;
}

std::optional<uint64_t> memlock_limit(int pid) {
  rlimit limit{};
  if (prlimit(pid, RLIMIT_MEMLOCK, nullptr, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return std::nullopt;
  return limit.rlim_cur;
}

int io_uring_error() {
  // struct io_uring_params is 120 bytes, all zero for the defaults.
  alignas(8) unsigned char parameters[120] = {};
  const long fd = syscall(SYS_io_uring_setup, 1, parameters);
  if (fd < 0) return errno;
  close(static_cast<int>(fd));
  return 0;
}

int direct_error(const std::string& directory) {
  const UniqueFd fd(
      open(directory.c_str(), O_TMPFILE | O_DIRECT | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!fd) return errno;
  const std::unique_ptr<void, void (*)(void*)> page(std::aligned_alloc(kDirectBytes, kDirectBytes),
                                                    std::free);
  if (!page) return ENOMEM;
  std::memset(page.get(), 0, kDirectBytes);
  return pwrite(fd.get(), page.get(), kDirectBytes, 0) == ssize_t{kDirectBytes} ? 0 : errno;
}

std::string kernel_release() {
  utsname name{};
  return uname(&name) == 0 ? name.release : "";
}

std::string file_text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace kvsidecar
