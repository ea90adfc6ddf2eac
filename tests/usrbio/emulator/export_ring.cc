// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "tests/usrbio/emulator/client_ring.h"
#include "tests/usrbio/emulator/export.h"
#include "tests/usrbio/emulator/shared_memory.h"

namespace kvsidecar::emulator {
namespace {

struct RingHandle {
  std::string mount, wrong_key;  // what is taken away at the end, not always what was registered
  fake3fs::Id id;
  Mapping mapping;
  int entries = 0;
  uint64_t generation = 0;
  fake3fs::Priority priority = fake3fs::Priority::kNormal;
  std::unique_ptr<ClientRing> queues;
};

struct Wish {
  const char* mount;
  int entries, priority, timeout;
  bool for_read;
  int io_depth, numa;
  uint64_t flags;
};

std::string binary(uint64_t number) {
  std::string digits;
  for (; number != 0; number >>= 1) digits.insert(digits.begin(), number & 1 ? '1' : '0');
  return digits;
}

// The ring's link, and what iordestroy believes it to be: upstream writes flags in binary when it
// makes one and in decimal when it takes it away.
std::string key_of(const fake3fs::Id& id, const Wish& wish, const std::string& flags) {
  std::string key = text_of(id) + (wish.for_read ? ".r" : ".w") + std::to_string(wish.io_depth);
  if (wish.priority != 0) key += wish.priority < 0 ? ".ph" : ".pl";
  key += ".t" + std::to_string(wish.timeout);
  return wish.flags == 0 ? key : key + ".f" + flags;
}

fake3fs::Priority priority_of(int sign) {
  if (sign == 0) return fake3fs::Priority::kNormal;
  return sign < 0 ? fake3fs::Priority::kHigh : fake3fs::Priority::kLow;
}

int create(hf3fs_ior* ior, const Wish& wish) {
  if (const int error = calls().failure(); error != 0) return -error;
  if (ior == nullptr || wish.mount == nullptr || wish.mount[0] == 0 || wish.timeout < 0) {
    return -EINVAL;
  }
  // Below zero upstream's daemon divides by zero or aborts.
  if (std::strlen(wish.mount) > kMountBytesMax || wish.entries <= 0) return -EINVAL;
  auto handle = std::make_unique<RingHandle>();
  const std::string file = shm_name();
  if (make_shared(file, ClientRing::bytes(wish.entries), handle->mapping) != 0) return -EIO;
  handle->id = random_id();
  handle->mount = wish.mount;
  handle->entries = wish.entries;
  handle->priority = priority_of(wish.priority);
  handle->wrong_key = key_of(handle->id, wish, std::to_string(wish.flags));
  handle->generation = state().daemon.generation();
  const fake3fs::RingOptions options{.for_read = wish.for_read,
                                     .io_depth = wish.io_depth,
                                     .priority = handle->priority,
                                     .timeout_ms = static_cast<uint32_t>(wish.timeout),
                                     .flags = wish.flags};
  const int wrong =
      state().daemon.add_ring(wish.mount, handle->id, key_of(handle->id, wish, binary(wish.flags)),
                              options, "/dev/shm/" + file);
  ::shm_unlink(("/" + file).c_str());
  if (wrong != 0) {
    unmap(handle->mapping);
    return wrong;
  }
  handle->queues = std::make_unique<ClientRing>(handle->mapping.base, wish.entries);
  ior->iov = {};
  ior->iov.base = reinterpret_cast<uint8_t*>(handle->mapping.base);
  ior->iov.size = handle->mapping.bytes;
  std::copy(handle->id.begin(), handle->id.end(), ior->iov.id);
  put_text(ior->iov.mount_point, wish.mount);
  put_text(ior->mount_point, wish.mount);
  ior->for_read = wish.for_read;
  ior->io_depth = wish.io_depth;
  ior->priority = wish.priority;
  ior->timeout = wish.timeout;
  ior->flags = wish.flags;
  ior->iorh = handle.release();
  ++state().ring_handles;
  state().mounts.keep_open(wish.mount);
  return 0;
}

RingHandle* handle_of(const hf3fs_ior* ior) {
  return ior == nullptr ? nullptr : static_cast<RingHandle*>(ior->iorh);
}

// Whether the range lies in the iov. An overflow of the sum passes, as upstream.
bool contains(const hf3fs_iov& iov, const void* address, uint64_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(iov.base);
  const auto at = reinterpret_cast<uintptr_t>(address);
  uint64_t end = 0;
  static_cast<void>(__builtin_add_overflow(at, bytes, &end));
  return at >= begin && end <= begin + iov.size;
}

}  // namespace
}  // namespace kvsidecar::emulator

using namespace kvsidecar;
using namespace kvsidecar::emulator;

KVS_EXPORT size_t hf3fs_ior_size(int entries) { return ClientRing::bytes(entries); }

KVS_EXPORT int hf3fs_iorcreate(hf3fs_ior* ior, const char* mount, int entries, bool for_read,
                               int io_depth, int numa) {
  return create(ior, {mount, entries, 0, 0, for_read, io_depth, numa, 0});
}

KVS_EXPORT int hf3fs_iorcreate2(hf3fs_ior* ior, const char* mount, int entries, bool for_read,
                                int io_depth, int priority, int numa) {
  return create(ior, {mount, entries, priority, 0, for_read, io_depth, numa, 0});
}

KVS_EXPORT int hf3fs_iorcreate3(hf3fs_ior* ior, const char* mount, int entries, bool for_read,
                                int io_depth, int priority, int timeout, int numa) {
  return create(ior, {mount, entries, priority, timeout, for_read, io_depth, numa, 0});
}

KVS_EXPORT int hf3fs_iorcreate4(hf3fs_ior* ior, const char* mount, int entries, bool for_read,
                                int io_depth, int timeout, int numa, uint64_t flags) {
  return create(ior, {mount, entries, 0, timeout, for_read, io_depth, numa, flags});
}

KVS_EXPORT void hf3fs_iordestroy(hf3fs_ior* ior) {
  if (handle_of(ior) == nullptr) return;
  const std::unique_ptr<RingHandle> handle(handle_of(ior));
  ior->iorh = nullptr;
  state().daemon.remove(handle->mount, handle->id, handle->wrong_key);
  unmap(handle->mapping);
  --state().ring_handles;
}

KVS_EXPORT int hf3fs_io_entries(const hf3fs_ior* ior) {
  return handle_of(ior) == nullptr ? -EINVAL : handle_of(ior)->entries;
}

KVS_EXPORT int hf3fs_prep_io(const hf3fs_ior* ior, const hf3fs_iov* iov, bool read, void* address,
                             int fd, size_t offset, uint64_t bytes, const void* userdata) {
  if (const int error = calls().failure(); error != 0) return -error;
  RingHandle* const ring = handle_of(ior);
  if (ring == nullptr || iov == nullptr || address == nullptr) return -EINVAL;
  if (read != ior->for_read || bytes == 0 || !contains(*iov, address, bytes)) return -EINVAL;
  // The answer of reg_fd does as well as the descriptor.
  const int number = fd < 0 ? -fd : fd;
  if (static_cast<uint64_t>(number) >= state().descriptors.numbers_max()) return -EINVAL;
  const std::shared_ptr<const Duplicate> file = state().descriptors.find(number);
  if (file == nullptr) return -EBADF;
  if (file->access() == (read ? O_WRONLY : O_RDONLY)) return -EACCES;
  Request request;
  std::copy_n(iov->id, sizeof request.buffer_id, request.buffer_id);
  state().daemon.look_for_iov(iov->mount_point, id_of(iov->id));
  request.buffer_offset = static_cast<uint64_t>(static_cast<uint8_t*>(address) - iov->base);
  request.inode = file->inode();
  request.file_offset = offset;
  request.bytes = bytes;
  request.userdata = userdata;
  return ring->queues->prepare(request);
}

KVS_EXPORT int hf3fs_submit_ios(const hf3fs_ior* ior) {
  if (const int error = calls().failure(); error != 0) return -error;
  RingHandle* const ring = handle_of(ior);
  if (ring == nullptr) return -EINVAL;
  state().daemon.submitted(ring->generation, ring->priority);
  return 0;
}

KVS_EXPORT int hf3fs_wait_for_ios(const hf3fs_ior* ior, hf3fs_cqe* into, int into_count,
                                  int min_results, const timespec* until) {
  if (const int error = calls().failure(); error != 0) return -error;
  RingHandle* const ring = handle_of(ior);
  if (ring == nullptr || into == nullptr || into_count <= 0) return -EINVAL;
  return ring->queues->wait(into, into_count, min_results, until,
                            [ring] { state().daemon.submitted(ring->generation, ring->priority); });
}
