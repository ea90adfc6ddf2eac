// SPDX-License-Identifier: Apache-2.0
#include "sidecar/store/usrbio/ring_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "sidecar/store/usrbio/keys.h"

namespace kvsidecar::usrbio {
namespace {

constexpr std::string_view kNamePrefix = "kvsidecar-ring.";

Status no_memory(size_t bytes, int error) {
  if (error == ENOSPC || error == ENOMEM)
    return {Code::kUnavailable, "/dev/shm has no room for the " + std::to_string(bytes) +
                                    " bytes of a ring: make it larger (mount -o "
                                    "remount,size=… /dev/shm)"};
  return os_error("making a ring's memory under /dev/shm", error, Code::kUnavailable);
}

// Allocated through the file system of /dev/shm only: elsewhere posix_fallocate writes.
int allocate(int file, size_t bytes, FaultPoints& faults) {
  if (const int error = faults.fail("usrbio.ring.allocate")) return error;
  if (::flock(file, LOCK_EX | LOCK_NB) != 0) return errno;
  if (::ftruncate(file, static_cast<off_t>(bytes)) != 0) return errno;
  int error;
  while ((error = ::posix_fallocate(file, 0, static_cast<off_t>(bytes))) == EINTR) {
  }
  return error;
}

}  // namespace

RingFile::~RingFile() { unlink(); }

void RingFile::unlink() {
  if (!path_.empty()) ::unlink(path_.c_str());
  path_.clear();
  file_.reset();
}

Result<std::unique_ptr<RingFile>> RingFile::make(size_t bytes, FaultPoints& faults) {
  std::unique_ptr<RingFile> ring(new RingFile);
  int error = faults.fail("usrbio.ring.open");
  // Without a name until it is locked, so that nobody's sweep() takes it for a dead one's.
  if (error == 0) {
    ring->file_.reset(::open(kSharedMemory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (!ring->file_) error = errno;
  }
  if (error == 0) error = allocate(ring->file_.get(), bytes, faults);
  if (error != 0) return no_memory(bytes, error);
  error = faults.fail("usrbio.ring.map");
  if (error != 0) return no_memory(bytes, error);
  auto memory = MappedMemory::map(ring->file_.get(), 0, bytes, Access::kReadWrite);
  if (!memory) return memory.status();
  ring->memory_ = memory.take();
  std::string path = kSharedMemory;
  path.append(kNamePrefix).append(id_text(make_id()));
  const std::string unnamed = "/proc/self/fd/" + std::to_string(ring->file_.get());
  error = faults.fail("usrbio.ring.link");
  if (error == 0 &&
      ::linkat(AT_FDCWD, unnamed.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) != 0)
    error = errno;
  if (error != 0) return no_memory(bytes, error);
  ring->path_ = std::move(path);
  return ring;
}

void RingFile::sweep() {
  DIR* folder = ::opendir(kSharedMemory);
  if (folder == nullptr) return;
  while (const dirent* entry = ::readdir(folder)) {
    const std::string_view name = entry->d_name;
    if (!name.starts_with(kNamePrefix) || !parse_id(name.substr(kNamePrefix.size()))) continue;
    const UniqueFd file(
        ::openat(::dirfd(folder), entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat facts {};
    if (!file || ::fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) continue;
    if (facts.st_uid != ::geteuid() || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) continue;
    ::unlinkat(::dirfd(folder), entry->d_name, 0);
  }
  ::closedir(folder);
}

}  // namespace kvsidecar::usrbio
