// SPDX-License-Identifier: Apache-2.0
#include "clients/cpp/own_mappings.h"

#include <sys/stat.h>
#include <sys/vfs.h>

#include <cinttypes>
#include <cstdio>
#include <memory>

namespace kvsidecar::clientlib {

Status check_own_mapping(const void* base, uint64_t bytes, int fd, uint64_t offset) {
  // Elsewhere (overlay, btrfs) the map's inode isn't the file's.
  constexpr long kTmpfsMagic = 0x01021994;
  struct statfs file_system {};
  if (::fstatfs(fd, &file_system) != 0 || static_cast<long>(file_system.f_type) != kTmpfsMagic)
    return {};
  struct stat file {};
  if (::fstat(fd, &file) != 0) return os_error("fstat of a region's fd", errno);
  const std::unique_ptr<FILE, int (*)(FILE*)> maps(std::fopen("/proc/self/maps", "re"), &fclose);
  if (!maps) return {};
  const Status stale(Code::kStaleMapping,
                     "base of region is not a shared mapping of fd at offset " +
                         std::to_string(offset) + "; pass the address that mmap of this fd gave");
  uint64_t address = reinterpret_cast<uint64_t>(base);
  const uint64_t end = address + bytes;
  char line[4352];
  while (address < end && std::fgets(line, sizeof line, maps.get()) != nullptr) {
    uint64_t low = 0, high = 0, start = 0, inode = 0;
    char access[5] = {};
    if (std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*x:%*x %" SCNu64, &low, &high,
                    access, &start, &inode) != 5)
      continue;
    if (high <= address) continue;
    const bool ours = low <= address && access[3] == 's' && inode == file.st_ino &&
                      start + (address - low) == offset;
    if (!ours) return stale;
    offset += high - address;
    address = high;
  }
  return address >= end ? Status() : stale;
}

}  // namespace kvsidecar::clientlib
