// SPDX-License-Identifier: Apache-2.0
#include "ipc/memory_room.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>

namespace kvsidecar {
namespace {

// Pinned to its last page, the kernel would have to kill somebody as soon as anybody grows.
constexpr uint64_t kKeptShare = 16, kKeptMax = uint64_t{4} << 30;

std::string megabytes(uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

std::optional<uint64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  if (!(file >> word)) return std::nullopt;
  uint64_t value = 0;
  const auto parsed = std::from_chars(word.data(), word.data() + word.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != word.data() + word.size()) return std::nullopt;
  return value;
}

// The number behind `name` in a file of lines "name number …"; 0 when it isn't there.
std::optional<uint64_t> read_field(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    uint64_t value = 0;
    if (words >> word >> value && word == name) return value;
  }
  return std::nullopt;
}

// Of this process, below the mount point; version 2 alone has number 0.
std::string own_cgroup(const MemorySources& sources) {
  std::ifstream file(sources.proc + "/self/cgroup");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("0::/") && line.find("/..") == std::string::npos) return line.substr(3);
  return "/";
}

MemoryRoom cgroup_room(const MemorySources& sources, const std::string& group) {
  const std::string folder = sources.sys + "/fs/cgroup" + group + (group.ends_with("/") ? "" : "/");
  const auto limit = read_number(folder + "memory.max");  // "max": no limit
  if (!limit) return {};
  uint64_t used = read_number(folder + "memory.current").value_or(0);
  for (const char* cache : {"active_file", "inactive_file", "slab_reclaimable"})
    used -= std::min(used, read_field(folder + "memory.stat", cache).value_or(0));
  return {*limit > used ? *limit - used : 0,
          "memory.max of the cgroup " + group + " is " + std::to_string(*limit) + " (" +
              megabytes(*limit) + "), of which " + megabytes(used) + " is used",
          "raise that limit (systemd: MemoryMax=; containers: their memory limit)"};
}

}  // namespace

MemoryRoom ordinary_room(const MemorySources& sources) {
  MemoryRoom room;
  if (const auto kib = read_field(sources.proc + "/meminfo", "MemAvailable:")) {
    const uint64_t available = std::min(*kib, UINT64_MAX / 1024) * 1024;
    const uint64_t kept = std::min(available / kKeptShare, kKeptMax);
    room = {available - kept,
            "MemAvailable of " + sources.proc + "/meminfo is " + megabytes(available) +
                ", of which " + megabytes(kept) + " are left to others",
            "free memory"};
  }
  for (std::string group = own_cgroup(sources);; group.resize(group.rfind('/'))) {
    if (group.empty()) group = "/";
    room.lower_to(cgroup_room(sources, group));
    if (group == "/") return room;
  }
}

MemoryRoom huge_page_room(const MemorySources& sources, uint64_t page_bytes) {
  const std::string size = std::to_string(page_bytes / 1024) + "kB";
  const std::string folder = sources.sys + "/kernel/mm/hugepages/hugepages-" + size + "/";
  const uint64_t free = read_number(folder + "free_hugepages").value_or(0);
  const uint64_t promised = read_number(folder + "resv_hugepages").value_or(0);
  const uint64_t pages = free - std::min(free, promised);
  return {pages * page_bytes,
          std::to_string(pages) + " huge pages of " + size + " are free, by " + folder,
          "reserve more in nr_hugepages there"};
}

}  // namespace kvsidecar
