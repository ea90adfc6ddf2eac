// SPDX-License-Identifier: Apache-2.0
#include "sidecar/device/host_device.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <limits>

#include "sidecar/device/fault_guard.h"
#include "sidecar/device/host_queue.h"
#include "sidecar/device/host_region.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kFileBytesMax = static_cast<uint64_t>(std::numeric_limits<off_t>::max());

std::string range_text(const MemoryHandle& handle) {
  return "offset " + std::to_string(handle.offset) + " + bytes " + std::to_string(handle.bytes);
}

Status check_fields(const MemoryHandle& handle) {
  if (handle.kind != MemoryKind::kHostFd)
    return invalid("region kind is " + std::to_string(static_cast<int>(handle.kind)) +
                   "; the host device takes kind 0, a file descriptor");
  if (!handle.fd)
    return invalid("region fd is missing; send the file descriptor with the registration");
  if (handle.bytes == 0) return invalid("region bytes is 0; register at least 1 byte");
  if (handle.offset > kFileBytesMax || handle.bytes > kFileBytesMax - handle.offset)
    return invalid("region " + range_text(handle) + " overflows; both must fit the file");
  return {};
}

Status check_file(const MemoryHandle& handle) {
  if (!is_memory_file(handle.fd.get()))
    return invalid(
        "region fd is no file in memory; pass a memfd or a file of tmpfs or hugetlbfs, or use "
        "register_staged");
  const Result<FileFacts> facts = file_facts(handle.fd.get());
  if (!facts)
    return invalid("region fd: " + facts.status().text());
  const uint64_t end = handle.offset + handle.bytes;
  if (facts->bytes < end)
    return invalid("region " + range_text(handle) + " ends beyond the file's " +
                   std::to_string(facts->bytes) + " bytes; extend the file or register less");
  // The whole file: which of its pages are missing can't be seen (on tmpfs SEEK_HOLE takes pages
  // that are allocated but were never written for holes).
  if (facts->allocated_bytes < facts->bytes)
    return invalid("region fd is sparse (" + std::to_string(facts->allocated_bytes) + " of " +
                   std::to_string(facts->bytes) +
                   " bytes allocated); allocate the whole file with fallocate first");
  return {};
}

// Maps the pages now, on the reaper, instead of one fault per 4 KiB inside the first copies.
Status populate(const MappedMemory& memory) {
#if defined(MADV_POPULATE_READ)
  constexpr int kPopulate = MADV_POPULATE_READ;
#else
  constexpr int kPopulate = 22;  // Linux 5.14
#endif
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<uintptr_t>(memory.data());
  const uintptr_t start = address & ~(page - 1);
  if (::madvise(reinterpret_cast<void*>(start), address - start + memory.size(), kPopulate) == 0)
    return {};
  if (errno == EINVAL) return {};  // an older kernel: the copies fault the pages in
  return invalid(std::string("region memory can't be read: ") + std::strerror(errno) +
                 "; the file must keep its size and pages while it is registered");
}

}  // namespace

HostDevice::HostDevice(uint64_t shuffle_seed, FaultPoints& faults)
    : faults_(faults), next_seed_(shuffle_seed) {}

HostDevice::~HostDevice() {
  for (auto& shell : closed_) delete shell.load(std::memory_order_acquire);
}

int HostDevice::fault(std::string_view point) {
  if (const int lost = lost_.load(std::memory_order_acquire); lost != 0) return lost;
  const int error = faults_.fail(point);
  if (error == ENODEV) lost_.store(error, std::memory_order_release);
  return error;
}

Result<std::unique_ptr<Region>> HostDevice::import(MemoryHandle handle) {
  if (Status status = check_fields(handle); !status.ok()) return status;
  if (const int error = fault("device.import")) return os_error("import of a region", error);
  if (Status status = check_file(handle); !status.ok()) return status;
  Result<MappedMemory> memory =
      MappedMemory::map(handle.fd.get(), handle.offset, handle.bytes, Access::kReadWrite);
  if (!memory)
    return invalid("region " + range_text(handle) + " can't be mapped: " + memory.status().text() +
                   "; the fd must be open for reading and writing, and huge pages must be there");
  if (Status status = populate(*memory); !status.ok()) return status;
  return std::unique_ptr<Region>(std::make_unique<HostRegion>(memory.take(), handle.bytes));
}

Status HostDevice::echo(Region& region, uint64_t offset, uint64_t expected, uint64_t answer) {
  HostRegion& host = HostRegion::open(region);
  if (!host.holds(offset, sizeof expected))
    return invalid("echo offset " + std::to_string(offset) + " + 8 lies outside the region of " +
                   std::to_string(region.bytes()) + " bytes; choose one inside it");
  if (const int error = fault("device.echo")) return os_error("echo of a region", error);
  uint64_t found = 0;
  auto exchange = [&] {
    std::memcpy(&found, host.data() + offset, sizeof found);
    if (found == expected) std::memcpy(host.data() + offset, &answer, sizeof answer);
  };
  if (guarded(exchange) != nullptr)
    return {Code::kMemoryFault,
            "region memory vanished during the echo; the file must keep its size while registered"};
  if (found != expected)
    return {Code::kStaleMapping,
            "the echo at offset " + std::to_string(offset) +
                " read another value than the client wrote; register the memory again"};
  return {};
}

void HostDevice::close(std::unique_ptr<Region> region) {
  KV_CHECK(region != nullptr);
  HostRegion::open(*region).shut();
  const uint64_t place = closed_count_.fetch_add(1, std::memory_order_relaxed) % kClosedKept;
  delete closed_[place].exchange(region.release(), std::memory_order_acq_rel);
}

std::unique_ptr<CopyQueue> HostDevice::make_queue() {
  // Odd multiplier: the queues' seeds differ and none is more likely to be 0.
  const uint64_t seed = next_seed_.fetch_add(0x9e3779b97f4a7c15, std::memory_order_relaxed);
  return std::make_unique<HostQueue>(*this, seed);
}

}  // namespace kvsidecar
