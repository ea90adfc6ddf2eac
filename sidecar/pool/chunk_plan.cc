// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "sidecar/pool/chunk_names.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kPageBytes = 4096;

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};
struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

std::string prefix_of(const ChunkPlan& plan) { return "kvsidecar." + plan.pool + "."; }

// What the kernel says could be had without swapping; nullopt where it doesn't say.
std::optional<uint64_t> available_memory_bytes() {
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen("/proc/meminfo", "re"));
  if (!file) return std::nullopt;
  char line[256];
  unsigned long long kib;
  while (std::fgets(line, sizeof line, file.get()) != nullptr)
    if (std::sscanf(line, "MemAvailable: %llu kB", &kib) == 1) return kib * 1024;
  return std::nullopt;
}

std::string megabytes(uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

Result<uint64_t> own_bytes(const ChunkPlan& plan) {
  const auto files = list_chunks(plan);
  if (!files) return files.status();
  uint64_t bytes = 0;
  for (const ChunkFile& file : *files)
    if (file.own) bytes += file.allocated_bytes;
  return bytes;
}

}  // namespace

bool is_pool_name(std::string_view name) {
  return !name.empty() && name.size() <= 32 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

std::string chunk_path(const ChunkPlan& plan, uint32_t number) {
  return plan.directory + "/" + prefix_of(plan) + std::to_string(number);
}

uint32_t chunk_count(const ChunkPlan& plan) {
  return static_cast<uint32_t>(plan.pool_bytes / plan.chunk_bytes);
}

Result<std::vector<ChunkFile>> list_chunks(const ChunkPlan& plan) {
  const std::unique_ptr<DIR, CloseDirectory> directory(opendir(plan.directory.c_str()));
  if (!directory) {
    return os_error("host_pool.directory '" + plan.directory + "' can't be listed", errno,
                    Code::kInvalid);
  }
  const std::string prefix = prefix_of(plan);
  std::vector<ChunkFile> files;
  while (const dirent* const entry = readdir(directory.get())) {
    const std::string_view name(entry->d_name);
    if (!name.starts_with(prefix) || name.size() == prefix.size()) continue;
    const std::string_view digits = name.substr(prefix.size());
    if (digits.find_first_not_of("0123456789") != std::string_view::npos) continue;
    struct stat facts;
    if (fstatat(dirfd(directory.get()), entry->d_name, &facts, AT_SYMLINK_NOFOLLOW) != 0) continue;
    ChunkFile file;
    file.path = plan.directory + "/" + entry->d_name;
    file.allocated_bytes = static_cast<uint64_t>(facts.st_blocks) * 512;
    file.own = S_ISREG(facts.st_mode) && facts.st_uid == geteuid();
    uint32_t number;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (parsed.ec == std::errc() && std::to_string(number) == digits) file.number = number;
    files.push_back(std::move(file));
  }
  return files;
}

Result<uint64_t> free_bytes(const ChunkPlan& plan) {
  struct statfs facts;
  if (statfs(plan.directory.c_str(), &facts) != 0) {
    return os_error("host_pool.directory '" + plan.directory + "' can't be used", errno,
                    Code::kInvalid);
  }
  const auto own = own_bytes(plan);
  if (!own) return own.status();
  uint64_t free = static_cast<uint64_t>(facts.f_bavail) * static_cast<uint64_t>(facts.f_bsize);
  // A tmpfs promises what its size says, whether or not there is memory behind it.
  if (facts.f_type == TMPFS_MAGIC) free = std::min(free, available_memory_bytes().value_or(free));
  return free + *own;
}

Status check_plan(const ChunkPlan& plan) {
  if (!is_pool_name(plan.pool)) {
    return invalid("host_pool.name is '" + plan.pool +
                   "'; it must be 1 to 32 characters of a-z, 0-9 and '-'");
  }
  if (plan.chunk_bytes == 0 || plan.chunk_bytes % kPageBytes != 0) {
    return invalid("host_pool.chunk_bytes is " + std::to_string(plan.chunk_bytes) +
                   "; it must be a multiple of " + std::to_string(kPageBytes) + ", not 0");
  }
  if (plan.pool_bytes == 0 || plan.pool_bytes % plan.chunk_bytes != 0 ||
      plan.pool_bytes / plan.chunk_bytes > UINT32_MAX) {
    return invalid("host_pool.bytes is " + std::to_string(plan.pool_bytes) +
                   "; it must be a multiple of host_pool.chunk_bytes (" +
                   std::to_string(plan.chunk_bytes) + "), not 0");
  }
  const auto free = free_bytes(plan);
  if (!free) return free.status();
  if (plan.pool_bytes > *free) {
    return invalid("host_pool.bytes needs " + megabytes(plan.pool_bytes) + ", but " +
                   plan.directory + " has " + megabytes(*free) +
                   " free (this pool's own chunks included); lower host_pool.bytes to at most " +
                   std::to_string(*free / plan.chunk_bytes * plan.chunk_bytes) +
                   " or free memory there");
  }
  return {};
}

}  // namespace kvsidecar
