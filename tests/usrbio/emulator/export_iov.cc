// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "tests/usrbio/emulator/export.h"
#include "tests/usrbio/emulator/shared_memory.h"

namespace kvsidecar::emulator {

fake3fs::Id id_of(const uint8_t* bytes) {
  fake3fs::Id id;
  std::copy_n(bytes, id.size(), id.begin());
  return id;
}

void put_text(char (&into)[256], const std::string& text) {
  std::memset(into, 0, sizeof into);
  text.copy(into, kMountBytesMax);
}

namespace {

void fill(hf3fs_iov& iov, void* base, const fake3fs::Id& id, const char* mount, size_t size,
          size_t block_size, int numa) {
  iov.base = static_cast<uint8_t*>(base);
  iov.iovh = nullptr;
  std::copy(id.begin(), id.end(), iov.id);
  put_text(iov.mount_point, mount);
  iov.size = size;
  iov.block_size = block_size;
  iov.numa = numa;
}

// The key of the link that this iov has, whatever block size its owner gave.
std::string key_of(const std::string& links, const fake3fs::Id& id) {
  std::error_code wrong;
  for (const auto& entry : std::filesystem::directory_iterator(links, wrong)) {
    const std::string name = entry.path().filename().string();
    if (name == text_of(id) || name.rfind(text_of(id) + ".b", 0) == 0) return name;
  }
  return {};
}

void own(hf3fs_iov& iov, IovHandle handle) {
  iov.iovh = new IovHandle(std::move(handle));
  ++state().iov_handles;
  state().mounts.keep_open(iov.mount_point);
}

IovHandle* handle_of(const hf3fs_iov* iov) { return static_cast<IovHandle*>(iov->iovh); }

}  // namespace
}  // namespace kvsidecar::emulator

using namespace kvsidecar;
using namespace kvsidecar::emulator;

KVS_EXPORT int hf3fs_iovcreate(hf3fs_iov* iov, const char* mount, size_t size, size_t block_size,
                               int numa) {
  if (const int error = calls().failure(); error != 0) return -error;
  if (iov == nullptr) return -EINVAL;
  if (mount == nullptr) return calls().die(SIGSEGV);
  if (std::strlen(mount) > kMountBytesMax) return -EINVAL;
  if (size == 0) return calls().die(SIGFPE);
  if (block_size > size) {
    if (!calls().deadly()) return -EINVAL;
    throw std::invalid_argument("block size is larger than the memory");
  }
  const std::string file = shm_name();
  Mapping mapping;
  if (make_shared(file, size, mapping) != 0) return -EIO;
  const fake3fs::Id id = random_id();
  const int wrong = state().daemon.add_iov(mount, id, block_size, "/dev/shm/" + file);
  if (wrong != 0) {
    unmap(mapping);
    ::shm_unlink(("/" + file).c_str());
    return wrong;
  }
  std::string key = text_of(id);
  if (block_size != 0) key += ".b" + std::to_string(block_size);
  fill(*iov, mapping.base, id, mount, size, block_size, numa);
  own(*iov, {mount, key, file, mapping.base, mapping.bytes});
  return 0;
}

KVS_EXPORT int hf3fs_iovopen(hf3fs_iov* iov, const uint8_t* bytes, const char* mount, size_t size,
                             size_t block_size, int numa) {
  if (const int error = calls().failure(); error != 0) return -error;
  if (iov == nullptr) return -EINVAL;
  if (mount == nullptr) return calls().die(SIGSEGV);
  if (std::strlen(mount) > kMountBytesMax) return -EINVAL;
  if (!state().daemon.alive()) return -ENOTCONN;
  const fake3fs::Id id = id_of(bytes);
  const std::string links = state().mounts.links(mount), key = key_of(links, id);
  std::error_code wrong;
  const std::string target = std::filesystem::canonical(links + "/" + key, wrong).string();
  if (wrong || key.empty()) return -ENOENT;
  if (target.rfind("/dev/shm/", 0) != 0) return -EINVAL;
  Mapping mapping;
  if (map_shared(target, size, mapping) != 0) return -EIO;
  fill(*iov, mapping.base, id, mount, size, block_size, numa);
  own(*iov, {mount, key, "", mapping.base, mapping.bytes});
  return 0;
}

KVS_EXPORT void hf3fs_iovunlink(hf3fs_iov* iov) {
  if (iov == nullptr || iov->iovh == nullptr) {
    static_cast<void>(calls().die(SIGSEGV));
    return;
  }
  IovHandle& handle = *handle_of(iov);
  if (!handle.shm_name.empty()) ::shm_unlink(("/" + handle.shm_name).c_str());
}

KVS_EXPORT void hf3fs_iovdestroy(hf3fs_iov* iov) {
  if (iov == nullptr || iov->iovh == nullptr) return;
  const std::unique_ptr<IovHandle> handle(handle_of(iov));
  iov->iovh = nullptr;
  state().daemon.remove(handle->mount, id_of(iov->id), handle->key);
  if (!handle->shm_name.empty()) ::shm_unlink(("/" + handle->shm_name).c_str());
  ::munmap(handle->base, handle->bytes);
  --state().iov_handles;
}

KVS_EXPORT int hf3fs_iovwrap(hf3fs_iov* iov, void* base, const uint8_t* id, const char* mount,
                             size_t size, size_t block_size, int numa) {
  if (const int error = calls().failure(); error != 0) return -error;
  if (iov == nullptr || std::strlen(mount) > kMountBytesMax) return -EINVAL;
  fill(*iov, base, id_of(id), mount, size, block_size, numa);
  return 0;
}
