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
#include <cstring>

#include "sidecar/pool/chunk_names.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kPageBytes = 4096;

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};

std::string prefix_of(const ChunkPlan& plan) { return "kvsidecar." + plan.pool + "."; }

std::string megabytes(uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

Result<uint64_t> own_bytes(const ChunkPlan& plan) {
  const auto files = list_chunks(plan);
  if (!files) return files.status();
  uint64_t bytes = 0;
  for (const ChunkFile& file : *files)
    if (file.own) bytes += file.allocated_bytes;
  return bytes;
}

// What a file system has, by its type. A tmpfs promises what its size says, whether or not there is
// memory behind it; a hugetlbfs without a limit of its own says 0.
MemoryRoom room_in(const ChunkPlan& plan, const struct statfs& facts) {
  const auto block_bytes = static_cast<uint64_t>(facts.f_bsize);
  const uint64_t free = static_cast<uint64_t>(facts.f_bavail) * block_bytes;
  MemoryRoom room{free, "that is what its file system has", "free space there"};
  if (facts.f_type == TMPFS_MAGIC) room.lower_to(ordinary_room(plan.sources));
  if (facts.f_type == HUGETLBFS_MAGIC) {
    if (facts.f_blocks == 0) room.bytes = UINT64_MAX;
    room.lower_to(huge_page_room(plan.sources, block_bytes));
  }
  return room;
}

Result<MemoryRoom> find_room(const ChunkPlan& plan) {
  struct statfs facts;
  if (statfs(plan.directory.c_str(), &facts) != 0) {
    return os_error("host_pool.directory '" + plan.directory + "' can't be used", errno,
                    Code::kInvalid);
  }
  const auto own = own_bytes(plan);
  if (!own) return own.status();
  MemoryRoom room = room_in(plan, facts);
  room.bytes += std::min(*own, UINT64_MAX - room.bytes);
  return room;
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
  const auto room = find_room(plan);
  if (!room) return room.status();
  return room->bytes;
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
  const auto room = find_room(plan);
  if (!room) return room.status();
  if (plan.pool_bytes > room->bytes) {
    return invalid("host_pool.bytes needs " + megabytes(plan.pool_bytes) + ", but " +
                   plan.directory + " can take " + megabytes(room->bytes) + ": " + room->source +
                   " (this pool's own chunks are counted as free); lower host_pool.bytes to at " +
                   "most " + std::to_string(room->bytes / plan.chunk_bytes * plan.chunk_bytes) +
                   ", or " + room->remedy);
  }
  return {};
}

}  // namespace kvsidecar
