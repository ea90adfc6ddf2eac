// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>

#include "ipc/os.h"

namespace kvsidecar {
namespace {

// Values of the kernel's ABI that this glibc or these kernel headers may lack.
constexpr unsigned kMemfdNoexecSeal = 0x0008;
constexpr long kHugetlbfsMagic = 0x958458f6;

int create_memfd(const char* name) {
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  const int fd = ::memfd_create(name, flags | kMemfdNoexecSeal);
  // Kernels before 6.3 refuse the flag.
  return fd < 0 && errno == EINVAL ? ::memfd_create(name, flags) : fd;
}

}  // namespace

Result<UniqueFd> make_memfd(const char* name, uint64_t bytes) {
  const std::string what = std::string("memfd ") + name + " of " + std::to_string(bytes) + " bytes";
  if (bytes == 0 || bytes > static_cast<uint64_t>(INT64_MAX)) {
    return invalid(what + ": the size must be 1 to 2^63-1");
  }
  UniqueFd fd(create_memfd(name));
  if (!fd) return os_error(what, errno);
  // fallocate gives the size too; blocks that are there now can't be missing (SIGBUS) later.
  while (::fallocate(fd.get(), 0, 0, static_cast<off_t>(bytes)) != 0) {
    if (errno != EINTR) return os_error(what, errno);
  }
  return fd;
}

Status seal(int fd, bool future_writes) {
  const int seals =
      F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | (future_writes ? F_SEAL_FUTURE_WRITE : 0);
  if (::fcntl(fd, F_ADD_SEALS, seals) != 0) return os_error("sealing a memfd", errno);
  return {};
}

Result<UniqueFd> make_sealed_memfd(const char* name, uint64_t bytes) {
  Result<UniqueFd> fd = make_memfd(name, bytes);
  if (!fd) return fd;
  if (Status sealed = seal(fd->get(), false); !sealed.ok()) return sealed;
  return fd;
}

// Only files in memory know seals, and the question stays inside the kernel.
bool is_memory_file(int fd) { return ::fcntl(fd, F_GET_SEALS) >= 0; }

Result<FileFacts> file_facts(int fd) {
  struct stat stat {};
  if (::fstat(fd, &stat) != 0) return os_error("fstat of the fd", errno);
  if (!S_ISREG(stat.st_mode)) {
    return invalid("the fd is of file type " + std::to_string((stat.st_mode & S_IFMT) >> 12) +
                   " (st_mode bits 15..12), not a regular file; pass a memfd or a file");
  }
  struct statfs file_system {};
  if (::fstatfs(fd, &file_system) != 0) return os_error("fstatfs of the fd", errno);
  FileFacts facts{};
  facts.bytes = static_cast<uint64_t>(stat.st_size);
  facts.allocated_bytes = static_cast<uint64_t>(stat.st_blocks) * 512;
  facts.seals = ::fcntl(fd, F_GET_SEALS);
  facts.hugetlb = static_cast<long>(file_system.f_type) == kHugetlbfsMagic;
  return facts;
}

}  // namespace kvsidecar
