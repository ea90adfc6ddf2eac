// SPDX-License-Identifier: Apache-2.0
// Memory that the daemon may copy from and to: handed out by the library, an engine's own, or
// staged. Each region's file has room for the echo's word that the engine never uses.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "clients/cpp/client.h"
#include "clients/cpp/own_mappings.h"
#include "ipc/memory_room.h"

namespace kvsidecar::clientlib {
namespace {

constexpr uint64_t kPageBytes = 4096;

uint64_t round_up(uint64_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

// Memory of a memfd is charged to nobody whom the kernel could kill for it: it would kill others.
Status check_room(uint64_t bytes) {
  const MemoryRoom room = ordinary_room(MemorySources{});
  if (bytes <= room.bytes) return {};
  return invalid("bytes " + std::to_string(bytes) + " of memory: there is room for " +
                 std::to_string(room.bytes) + ", since " + room.source + "; ask for less, or " +
                 room.remedy);
}

// A memfd of those bytes and one page more for the echo, mapped.
Result<RegionObject> make_memory(const char* name, uint64_t bytes) {
  if (Status roomy = check_room(bytes); !roomy.ok()) return roomy;
  RegionObject region;
  region.bytes = bytes;
  region.echo_offset = round_up(bytes);
  region.registered_bytes = region.echo_offset + kPageBytes;
  Result<UniqueFd> fd = make_sealed_memfd(name, region.registered_bytes);
  if (!fd.ok()) return fd.status();
  region.fd = fd.take();
  Result<MappedMemory> mapped =
      MappedMemory::map(region.fd.get(), 0, region.registered_bytes, Access::kReadWrite);
  if (!mapped.ok()) return mapped.status();
  region.mapping = mapped.take();
  region.base = region.mapping.data();
  region.echo = region.base + region.echo_offset;
  return region;
}

// A page behind the end of an engine's file, for the echo alone.
Status grow_for_echo(RegionObject& region, const FileFacts& facts) {
  const std::string remedy = "; name 8 bytes that the engine doesn't use as echo_offset";
  const uint64_t end = round_up(facts.bytes);
  if (facts.hugetlb || (facts.seals > 0 && (facts.seals & F_SEAL_GROW) != 0))
    return invalid("echo_offset: the file can't grow by a page" + remedy);
  if (::fallocate(region.fd.get(), 0, static_cast<off_t>(end), kPageBytes) != 0)
    return invalid("echo_offset: the file can't grow by a page (" +
                   os_error("fallocate", errno).text() + ")" + remedy);
  Result<MappedMemory> mapped =
      MappedMemory::map(region.fd.get(), end, kPageBytes, Access::kReadWrite);
  if (!mapped.ok()) return mapped.status();
  region.echo_mapping = mapped.take();
  region.echo = region.echo_mapping.data();
  region.echo_offset = end - region.offset;
  region.registered_bytes = region.echo_offset + kPageBytes;
  return {};
}

Status check_fd(int fd, uint64_t offset, uint64_t bytes, const FileFacts& facts) {
  if (fd < 0) return invalid("fd " + std::to_string(fd) + " is not a file descriptor");
  if (bytes == 0) return invalid("bytes of region is 0");
  if (offset % kPageBytes != 0)
    return invalid("offset " + std::to_string(offset) + " must be a multiple of 4096");
  if (offset > facts.bytes || bytes > facts.bytes - offset)
    return invalid("offset " + std::to_string(offset) + " + bytes " + std::to_string(bytes) +
                   " leave the file's " + std::to_string(facts.bytes) + " bytes");
  return {};
}

}  // namespace

Status Client::keep_region(Lock& lock, RegionObject&& object, uint64_t timeout_ns, uint64_t& id) {
  const uint64_t until_ns = deadline(timeout_ns);
  const bool turn = take_turn(lock, until_ns);
  id = ++core_.objects.last_id;
  RegionObject& region = core_.objects.regions.emplace(id, std::move(object)).first->second;
  Status status(Code::kUnavailable, "the client is still registering after a reconnect");
  if (turn && region.staged) status = make_staging(lock, until_ns);
  if (turn && (!region.staged || status.ok() || status.code() == Code::kUnavailable)) {
    const Status own = make_region(lock, region, until_ns);
    if (!region.staged || status.ok()) status = own;
  }
  if (turn) end_turn();
  return made(core_.objects.regions, id, status);
}

Status Client::create_memory(uint64_t bytes, uint64_t timeout_ns, kvs_memory& memory,
                             uint64_t& id) {
  if (bytes == 0) return invalid("bytes of memory is 0");
  if (bytes > UINT64_MAX / 2) return invalid("bytes " + std::to_string(bytes) + " of memory");
  Result<RegionObject> region = make_memory("kvsidecar-memory", bytes);
  if (!region.ok()) return region.status();
  memory.base = region->base;
  memory.bytes = bytes;
  memory.fd = region->fd.get();
  Lock lock(mutex_);
  return keep_region(lock, region.take(), timeout_ns, id);
}

Status Client::register_fd(int fd, uint64_t offset, uint64_t bytes, void* base,
                           uint64_t echo_offset, uint64_t timeout_ns, uint64_t& id) {
  Result<FileFacts> facts = file_facts(fd);
  if (!facts.ok()) return invalid("fd: " + facts.status().text());
  if (Status checked = check_fd(fd, offset, bytes, *facts); !checked.ok()) return checked;
  RegionObject region;
  region.offset = offset;
  region.bytes = region.registered_bytes = bytes;
  region.fd = UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (!region.fd) return os_error("duplicating the fd of a region", errno);
  region.base = static_cast<std::byte*>(base);
  if (base == nullptr) {
    Result<MappedMemory> mapped =
        MappedMemory::map(region.fd.get(), offset, bytes, Access::kReadWrite);
    if (!mapped.ok()) return mapped.status();
    region.mapping = mapped.take();
    region.base = region.mapping.data();
  } else if (Status own = check_own_mapping(base, bytes, region.fd.get(), offset); !own.ok()) {
    return own;
  }
  if (echo_offset != KVS_ECHO_AUTO) {
    if (echo_offset % 8 != 0 || bytes < 8 || echo_offset > bytes - 8)
      return invalid("echo_offset " + std::to_string(echo_offset) +
                     " must be a multiple of 8 and leave 8 of the region's " +
                     std::to_string(bytes) + " bytes");
    region.echo_offset = echo_offset;
    region.echo = region.base + echo_offset;
  } else if (Status grown = grow_for_echo(region, *facts); !grown.ok()) {
    return grown;
  }
  Lock lock(mutex_);
  return keep_region(lock, std::move(region), timeout_ns, id);
}

Status Client::register_staged(void* base, uint64_t bytes, uint64_t timeout_ns, uint64_t& id) {
  if (base == nullptr || bytes == 0) return invalid("base and bytes of a staged region");
  RegionObject region;
  region.staged = true;
  region.base = static_cast<std::byte*>(base);
  region.bytes = bytes;
  Lock lock(mutex_);
  if (!staging_said_)
    log(KVS_LOG_WARNING, "memory that can't be shared is copied through " +
                             std::to_string(options_.staging_bytes >> 20) + " MiB of staging");
  staging_said_ = true;
  return keep_region(lock, std::move(region), timeout_ns, id);
}

Status Client::make_staging(Lock& lock, uint64_t until_ns) {
  if (core_.staging_region == 0) {
    Result<RegionObject> made_here = make_memory("kvsidecar-staging", options_.staging_bytes);
    if (!made_here.ok()) return made_here.status();
    core_.staging_region = ++core_.objects.last_id;
    core_.staging = StagingSpace(options_.staging_bytes);
    core_.staging_base = made_here->base;
    core_.objects.regions.emplace(core_.staging_region, made_here.take());
  }
  RegionObject& staging = core_.objects.regions.at(core_.staging_region);
  if (!staging.refused.ok()) return staging.refused;
  return staging.handle != 0 ? Status() : make_region(lock, staging, until_ns);
}

Status Client::unregister_region(uint64_t id, uint64_t timeout_ns) {
  const uint64_t until_ns = deadline(timeout_ns);
  RegionObject gone;  // unmapped after the lock
  Lock lock(mutex_);
  if (!take_turn(lock, until_ns))
    return {Code::kTimeout, "another registration has not ended in time; call again"};
  Status status(Code::kUnknownHandle,
                "region " + std::to_string(id) + " is not known to this client");
  const auto found = core_.objects.regions.find(id);
  if (found != core_.objects.regions.end() && id != core_.staging_region) {
    status = {};
    for (const auto& [layout_id, layout] : core_.objects.layouts)
      for (const LayoutRun& run : layout.runs)
        if (run.region == id)
          status = {Code::kBusy, "region: layout " + std::to_string(layout_id) +
                                     " still uses it; unregister that first"};
    if (status.ok() && core_.uses_region(id))
      status = {Code::kBusy, "region: an operation still uses it; wait for it"};
    if (status.ok()) {
      status = drop(lock, found->second.handle, until_ns);
      if (status.ok() || status.code() == Code::kUnavailable) {
        gone = std::move(found->second);
        core_.objects.regions.erase(found);
      }
    }
  }
  end_turn();
  return status;
}

Status Client::register_layout(LayoutObject object, uint64_t timeout_ns, uint64_t& id) {
  const uint64_t until_ns = deadline(timeout_ns);
  Lock lock(mutex_);
  const bool turn = take_turn(lock, until_ns);
  Status status;
  for (size_t r = 0; r < object.runs.size(); ++r) {
    const LayoutRun& run = object.runs[r];
    const std::string name = "run " + std::to_string(r) + " of layout: ";
    const auto region = core_.objects.regions.find(run.region);
    if (region == core_.objects.regions.end()) {
      status = {Code::kUnknownHandle,
                name + "region " + std::to_string(run.region) + " is not known to this client"};
      break;
    }
    const uint64_t bytes = region->second.bytes, steps = object.blocks - 1;
    const bool fits =
        run.run_length > 0 && run.run_length <= bytes && run.base <= bytes - run.run_length &&
        (steps == 0 || run.block_stride <= (bytes - run.run_length - run.base) / steps);
    if (!fits) {
      status =
          invalid(name + "base " + std::to_string(run.base) + ", stride " +
                  std::to_string(run.block_stride) + ", length " + std::to_string(run.run_length) +
                  " don't fit " + std::to_string(object.blocks) + " blocks into the region's " +
                  std::to_string(bytes) + " bytes");
      break;
    }
    object.part_bytes += run.run_length;
    object.staged = object.staged || region->second.staged;
  }
  if (status.ok() && object.part_bytes > kPageBytesMax)
    status = invalid("runs of layout sum to more than a page may have");
  if (!status.ok()) {
    if (turn) end_turn();
    id = 0;
    return status;
  }
  id = ++core_.objects.last_id;
  LayoutObject& layout = core_.objects.layouts.emplace(id, std::move(object)).first->second;
  status = {Code::kUnavailable, "the client is still registering after a reconnect"};
  if (turn) status = make_layout(lock, layout, until_ns);
  if (turn) end_turn();
  return made(core_.objects.layouts, id, status);
}

}  // namespace kvsidecar::clientlib
