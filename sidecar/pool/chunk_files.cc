// SPDX-License-Identifier: Apache-2.0
#include "sidecar/pool/chunk_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "sidecar/pool/chunk_names.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace kvsidecar {
namespace {

constexpr uint64_t kStepBytes = 64ull << 20;  // between two steps the thread can be stopped
constexpr int kOpenFlags = O_RDWR | O_NOFOLLOW | O_CLOEXEC;

bool is_set(StopFlag stop) { return stop != nullptr && stop->load(std::memory_order_relaxed); }

Status given_up(const std::string& path) {
  return {Code::kDraining, "host pool file '" + path + "' was given up: kvsidecard ends"};
}

// What an existing name is to us.
enum class Kind { kAbsent, kGood, kLeftover };
struct Existing {
  Kind kind = Kind::kAbsent;
  UniqueFd fd;  // kGood
};

Status refuse(const std::string& path, const std::string& why) {
  return invalid("host pool file '" + path + "' " + why +
                 "; remove it or set host_pool.name to another name");
}

Result<Existing> look_at(const std::string& path, uint64_t chunk_bytes) {
  // O_NONBLOCK: a fifo of that name must not hang us.
  UniqueFd fd(open(path.c_str(), kOpenFlags | O_NONBLOCK));
  if (!fd) {
    if (errno == ENOENT) return Existing{};
    if (errno == ELOOP) return refuse(path, "is a symbolic link");
    return refuse(path, "can't be opened (" + os_error("open", errno).text() + ")");
  }
  struct stat facts;
  if (fstat(fd.get(), &facts) != 0) return os_error("fstat '" + path + "'", errno);
  if (!S_ISREG(facts.st_mode)) return refuse(path, "isn't a regular file");
  if (facts.st_uid != geteuid())
    return refuse(path, "belongs to uid " + std::to_string(facts.st_uid));
  // Ours, but half made, of another configuration, or open to others: nothing in it can be used.
  const bool good = (facts.st_mode & 07777) == 0600 && facts.st_nlink == 1 &&
                    static_cast<uint64_t>(facts.st_size) == chunk_bytes;
  if (!good) return Existing{Kind::kLeftover, {}};
  return Existing{Kind::kGood, std::move(fd)};
}

// Reserved space can't run out later, when a page is touched and the answer would be SIGBUS.
Status reserve(int fd, const std::string& path, uint64_t bytes, FaultPoints& faults,
               StopFlag stop) {
  for (uint64_t done = 0; done < bytes;) {
    if (is_set(stop)) return given_up(path);
    const uint64_t step = std::min(kStepBytes, bytes - done);
    int error = faults.fail("chunk.reserve");
    if (error == 0 && fallocate(fd, 0, static_cast<off_t>(done), static_cast<off_t>(step)) != 0)
      error = errno;
    if (error == EINTR) continue;
    if (error != 0) {
      return os_error("can't reserve " + std::to_string(bytes) + " bytes for host pool file '" +
                          path + "' (" + std::to_string(done) +
                          " were had); lower host_pool.bytes or free memory there",
                      error);
    }
    done += step;
  }
  return {};
}

Status populate(std::span<std::byte> memory, const std::string& path, FaultPoints& faults,
                StopFlag stop) {
  for (uint64_t done = 0; done < memory.size();) {
    if (is_set(stop)) return given_up(path);
    const uint64_t step = std::min(kStepBytes, memory.size() - done);
    int error = faults.fail("chunk.populate");
    if (error == 0 && madvise(&memory[done], step, MADV_POPULATE_WRITE) != 0) error = errno;
    if (error == EINTR || error == EAGAIN) continue;
    if (error == EINVAL) return {};  // before Linux 5.14: pages are mapped at first use instead
    if (error != 0) return os_error("can't prefault host pool file '" + path + "'", error);
    done += step;
  }
  return {};
}

Result<std::span<std::byte>> map(int fd, const std::string& path, uint64_t bytes,
                                 FaultPoints& faults) {
  int error = faults.fail("chunk.map");
  void* at = MAP_FAILED;
  if (error == 0) {
    at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) error = errno;
  }
  if (error != 0) return os_error("can't map host pool file '" + path + "'", error);
  madvise(at, bytes, MADV_HUGEPAGE);  // a hint: the mount decides
  return std::span(static_cast<std::byte*>(at), bytes);
}

Result<Chunk> create(const ChunkPlan& plan, const std::string& path, FaultPoints& faults,
                     StopFlag stop) {
  int error = faults.fail("chunk.create");
  UniqueFd fd;
  if (error == 0) {
    fd.reset(open(path.c_str(), kOpenFlags | O_CREAT | O_EXCL, 0600));
    if (!fd) error = errno;
  }
  if (error != 0) return os_error("can't create host pool file '" + path + "'", error);

  Chunk chunk{.path = path};
  Status status;
  if (fchmod(fd.get(), 0600) != 0) status = os_error("fchmod '" + path + "'", errno);
  if (status.ok()) status = reserve(fd.get(), path, plan.chunk_bytes, faults, stop);
  if (status.ok()) {
    auto memory = map(fd.get(), path, plan.chunk_bytes, faults);
    status = memory.status();
    if (memory.ok()) {
      chunk.memory = *memory;
      status = populate(chunk.memory, path, faults, stop);
    }
  }
  if (status.ok()) return chunk;
  close_chunk(chunk);
  unlink(path.c_str());
  return status;
}

Result<Chunk> adopt(const ChunkPlan& plan, const std::string& path, int fd, FaultPoints& faults,
                    StopFlag stop) {
  struct stat facts;
  if (fstat(fd, &facts) != 0) return os_error("fstat '" + path + "'", errno);
  // Holes (punched, or never filled) read as zeros but would be filled on first write.
  if (static_cast<uint64_t>(facts.st_blocks) * 512 < plan.chunk_bytes) {
    const Status reserved = reserve(fd, path, plan.chunk_bytes, faults, stop);
    if (!reserved.ok()) return reserved;
  }
  const auto memory = map(fd, path, plan.chunk_bytes, faults);
  if (!memory) return memory.status();
  return Chunk{path, *memory, true};
}

// Only what no daemon has: a living one's pages go with the file's name.
Status remove_unclaimed(const std::string& path) {
  UniqueFd lock;
  if (Status status = lock_chunk(path, lock); !status.ok()) return status;
  if (lock && unlink(path.c_str()) != 0 && errno != ENOENT)
    return os_error("can't remove host pool file '" + path + "'", errno);
  return {};
}

Status remove_where(const ChunkPlan& plan, const std::function<bool(const ChunkFile&)>& goes) {
  const auto files = list_chunks(plan);
  if (!files) return files.status();
  Status first_failure;
  for (const ChunkFile& file : *files) {
    if (!goes(file)) continue;
    Status status;
    if (!file.own)
      status = refuse(file.path, "isn't a regular file of this user");
    else
      status = remove_unclaimed(file.path);
    if (first_failure.ok()) first_failure = status;
  }
  return first_failure;
}

}  // namespace

Result<Chunk> open_chunk(const ChunkPlan& plan, uint32_t number, FaultPoints& faults,
                         StopFlag stop) {
  const std::string path = chunk_path(plan, number);
  auto existing = look_at(path, plan.chunk_bytes);
  if (!existing) return existing.status();
  if (existing->kind == Kind::kGood) return adopt(plan, path, existing->fd.get(), faults, stop);
  if (existing->kind == Kind::kLeftover)
    if (Status status = remove_unclaimed(path); !status.ok()) return status;
  return create(plan, path, faults, stop);
}

Status lock_chunk(const std::string& path, UniqueFd& lock) {
  lock = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!lock && errno == ENOENT) return {};
  if (!lock) return os_error("open " + path, errno);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return {};
  if (errno != EWOULDBLOCK) return os_error("lock " + path, errno);
  return {Code::kBusy,
          path + " belongs to another kvsidecard; give this one another host_pool.name"};
}

Status check_unclaimed(const ChunkPlan& plan) {
  const auto files = list_chunks(plan);
  if (!files) return files.status();
  for (const ChunkFile& file : *files) {
    UniqueFd lock;
    if (!file.own) continue;
    if (Status status = lock_chunk(file.path, lock); !status.ok()) return status;
  }
  return {};
}

void close_chunk(Chunk& chunk) {
  if (!chunk.memory.empty()) munmap(chunk.memory.data(), chunk.memory.size());
  chunk.memory = {};
}

Status remove_leftovers(const ChunkPlan& plan) {
  const uint32_t count = chunk_count(plan);
  return remove_where(plan,
                      [&](const ChunkFile& file) { return !file.number || *file.number >= count; });
}

Status remove_pool(const ChunkPlan& plan) {
  return remove_where(plan, [](const ChunkFile&) { return true; });
}

}  // namespace kvsidecar
