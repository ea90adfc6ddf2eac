// SPDX-License-Identifier: Apache-2.0
// Memory: made and registered, opened by its id, wrapped.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "sidecar/store/usrbio/keys.h"
#include "tests/usrbio/shared_builtin/c_functions.h"
#include "tests/usrbio/shared_builtin/mounts.h"

namespace kvsidecar::shared_builtin {
namespace {

struct Handle {
  std::shared_ptr<usrbio::Mount> mount;
  std::string file;  // ours to unlink; empty: opened, or unlinked already
  std::string key;   // ours to unregister; empty: opened, it is its owner's
  void* memory = MAP_FAILED;
  size_t bytes = 0;

  ~Handle() {
    if (!key.empty()) ::unlinkat(mount->registry(), key.c_str(), 0);
    if (!file.empty()) ::unlink(file.c_str());
    if (memory != MAP_FAILED) ::munmap(memory, bytes);
  }
};

void fill(Iov& iov, void* base, const usrbio::MemoryId& id, const char* mount_point, size_t bytes,
          size_t block_bytes, int numa) {
  iov = {};
  iov.base = static_cast<uint8_t*>(base);
  std::copy(id.begin(), id.end(), iov.id);
  std::memcpy(iov.mount_point, mount_point, std::strlen(mount_point) + 1);
  iov.bytes = bytes;
  iov.block_bytes = block_bytes;
  iov.numa = numa;
}

bool map(Handle& handle, int file, size_t bytes) {
  handle.bytes = bytes;
  handle.memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return handle.memory != MAP_FAILED;
}

// Zeroed memory whose pages are there: what it can't get is an error here and not SIGBUS later.
int make_memory(Handle& handle, size_t bytes) {
  if (bytes > static_cast<size_t>(INT64_MAX)) return -EIO;
  handle.file =
      std::string(usrbio::kSharedMemory) + "hf3fs-iov-" + usrbio::id_text(usrbio::make_id());
  const UniqueFd file(
      ::open(handle.file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!file) {
    handle.file.clear();
    return -EIO;
  }
  const auto size = static_cast<off_t>(bytes);
  if (::ftruncate(file.get(), size) != 0 || ::posix_fallocate(file.get(), 0, size) != 0 ||
      !map(handle, file.get(), bytes))
    return -EIO;
  return 0;
}

int create(Iov* iov, const char* mount_point, size_t bytes, size_t block_bytes, int numa) {
  if (!iov || !is_possible(mount_point) || bytes == 0 || block_bytes > bytes) return -EINVAL;
  auto handle = std::make_unique<Handle>();
  if (const int error = mount_at(mount_point, handle->mount)) return error;
  if (const int error = make_memory(*handle, bytes)) return error;
  const usrbio::MemoryId id = usrbio::make_id();
  handle->key = usrbio::memory_key(id, block_bytes);  // taken away again even if this fails
  if (::symlinkat(handle->file.c_str(), handle->mount->registry(), handle->key.c_str()) != 0)
    return -errno;
  fill(*iov, handle->memory, id, mount_point, bytes, block_bytes, numa);
  iov->handle = handle.release();
  return 0;
}

int open_by_id(Iov* iov, const uint8_t* bytes_of_id, const char* mount_point, size_t bytes,
               size_t block_bytes, int numa) {
  if (!iov || !bytes_of_id || !is_possible(mount_point) || bytes == 0) return -EINVAL;
  auto handle = std::make_unique<Handle>();
  if (const int error = mount_at(mount_point, handle->mount)) return error;
  usrbio::MemoryId id;
  std::copy_n(bytes_of_id, id.size(), id.begin());
  char target[PATH_MAX];
  const ssize_t length =
      ::readlinkat(handle->mount->registry(), usrbio::memory_key(id, block_bytes).c_str(), target,
                   sizeof target);
  if (length < 0) return -errno;
  const std::string path(target, static_cast<size_t>(length));
  if (!path.starts_with(usrbio::kSharedMemory)) return -EINVAL;
  const UniqueFd file(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  if (!file) return errno == ENOENT ? -ENOENT : -EIO;
  struct stat facts {};
  if (::fstat(file.get(), &facts) != 0) return -EIO;
  if (!S_ISREG(facts.st_mode) || static_cast<uint64_t>(facts.st_size) < bytes) return -EINVAL;
  if (!map(*handle, file.get(), bytes)) return -EIO;
  fill(*iov, handle->memory, id, mount_point, bytes, block_bytes, numa);
  iov->handle = handle.release();
  return 0;
}

}  // namespace
}  // namespace kvsidecar::shared_builtin

using namespace kvsidecar::shared_builtin;  // NOLINT: C functions have no namespace of their own

int hf3fs_iovcreate(Iov* iov, const char* mount_point, size_t bytes, size_t block_bytes, int numa) {
  return without_exceptions([&] { return create(iov, mount_point, bytes, block_bytes, numa); });
}

int hf3fs_iovopen(Iov* iov, const uint8_t* id, const char* mount_point, size_t bytes,
                  size_t block_bytes, int numa) {
  return without_exceptions(
      [&] { return open_by_id(iov, id, mount_point, bytes, block_bytes, numa); });
}

void hf3fs_iovunlink(Iov* iov) {
  auto* handle = iov ? static_cast<Handle*>(iov->handle) : nullptr;
  if (handle == nullptr || handle->file.empty()) return;
  ::unlink(handle->file.c_str());
  handle->file.clear();
}

void hf3fs_iovdestroy(Iov* iov) {
  if (iov == nullptr) return;
  delete static_cast<Handle*>(iov->handle);
  iov->handle = nullptr;
}

int hf3fs_iovwrap(Iov* iov, void* base, const uint8_t* id, const char* mount_point, size_t bytes,
                  size_t block_bytes, int numa) {
  if (!iov || !id || !is_possible(mount_point)) return -EINVAL;
  kvsidecar::usrbio::MemoryId copy;
  std::copy_n(id, copy.size(), copy.begin());
  fill(*iov, base, copy, mount_point, bytes, block_bytes, numa);
  return 0;
}
