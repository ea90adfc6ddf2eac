// SPDX-License-Identifier: Apache-2.0
// Rings: made, registered, given back.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tests/usrbio/shared_builtin/mounts.h"
#include "tests/usrbio/shared_builtin/rings.h"

namespace kvsidecar::shared_builtin {
namespace {

int create(Ior* ior, const char* mount_point, int entries, int numa,
           const usrbio::RingTerms& terms) {
  if (!ior || !is_possible(mount_point) || terms.timeout_ms < 0 || entries < 1 ||
      terms.io_depth > entries)
    return -EINVAL;
  std::shared_ptr<usrbio::Mount> mount;
  if (const int error = mount_at(mount_point, mount)) return error;
  int refused = EIO;
  auto ring = usrbio::ProtocolRing::make(mount, static_cast<uint32_t>(entries), terms, &refused);
  if (!ring) return ring.status().code() == Code::kInvalid ? -EINVAL : -refused;
  auto handle = std::make_unique<RingHandle>();
  handle->ring = ring.take();
  handle->entries = entries;
  *ior = {};
  ior->iov.base = reinterpret_cast<uint8_t*>(handle->ring->memory().data());
  ior->iov.bytes = handle->ring->memory().size();
  ior->iov.numa = numa;
  std::copy(handle->ring->id().begin(), handle->ring->id().end(), ior->iov.id);
  std::memcpy(ior->iov.mount_point, mount_point, std::strlen(mount_point) + 1);
  std::memcpy(ior->mount_point, mount_point, std::strlen(mount_point) + 1);
  ior->for_read = terms.for_read;
  ior->io_depth = terms.io_depth;
  ior->priority = terms.priority;
  ior->timeout_ms = terms.timeout_ms;
  ior->flags = terms.flags;
  ior->handle = handle.release();
  return 0;
}

}  // namespace
}  // namespace kvsidecar::shared_builtin

using namespace kvsidecar::shared_builtin;  // NOLINT: C functions have no namespace of their own
using kvsidecar::usrbio::RingLayout;
using kvsidecar::usrbio::RingTerms;

size_t hf3fs_ior_size(int entries) {
  return RingLayout(static_cast<uint32_t>(std::max(entries, 0))).bytes();
}

int hf3fs_iorcreate(Ior* ior, const char* mount_point, int entries, bool for_read, int io_depth,
                    int numa) {
  return hf3fs_iorcreate3(ior, mount_point, entries, for_read, io_depth, 0, 0, numa);
}

int hf3fs_iorcreate2(Ior* ior, const char* mount_point, int entries, bool for_read, int io_depth,
                     int priority, int numa) {
  return hf3fs_iorcreate3(ior, mount_point, entries, for_read, io_depth, priority, 0, numa);
}

int hf3fs_iorcreate3(Ior* ior, const char* mount_point, int entries, bool for_read, int io_depth,
                     int priority, int timeout_ms, int numa) {
  const RingTerms terms{for_read, io_depth, priority, timeout_ms, 0};
  return without_exceptions([&] { return create(ior, mount_point, entries, numa, terms); });
}

int hf3fs_iorcreate4(Ior* ior, const char* mount_point, int entries, bool for_read, int io_depth,
                     int timeout_ms, int numa, uint64_t flags) {
  const RingTerms terms{for_read, io_depth, 0, timeout_ms, flags};
  return without_exceptions([&] { return create(ior, mount_point, entries, numa, terms); });
}

void hf3fs_iordestroy(Ior* ior) {
  if (ior == nullptr) return;
  delete handle_of(ior);
  ior->handle = nullptr;
}

int hf3fs_io_entries(const Ior* ior) {
  const RingHandle* handle = handle_of(ior);
  return handle == nullptr ? -EINVAL : handle->entries;
}
