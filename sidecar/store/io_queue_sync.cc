// SPDX-License-Identifier: Apache-2.0
// The queue without a ring: system calls that block the store worker, loads before stores.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "sidecar/store/io_queue.h"

namespace kvsidecar {
namespace {
int32_t result_of(ssize_t result) { return static_cast<int32_t>(result < 0 ? -errno : result); }
}  // namespace

bool IoQueue::run_waiting() {
  path_full_ = false;
  if (faults_.fail("store.stall") != 0) return false;
  bool full = false;
  for (Queue* queue : {&probes_, &loads_, &prefetches_, &stores_}) {
    if (queue->empty()) continue;
    const int error = fault_at(*queue->front());
    const auto taken = error != 0 ? TransferPath::Taken::kNotMine : offer(queue->front());
    if (taken == TransferPath::Taken::kFull) {
      full = true;
      continue;
    }
    auto io = std::move(queue->front());
    queue->pop_front();
    if (taken == TransferPath::Taken::kYes) {
      path_->submit();
      return true;
    }
    const int32_t result = error != 0 ? -error : run_now(*io);
    complete(std::move(io), result);
    return true;
  }
  path_full_ = full;
  return false;
}

int32_t IoQueue::run_now(Io& io) {
  switch (io.kind) {
    case IoKind::kRead:
    case IoKind::kWrite: {
      fill(io);
      const auto offset = static_cast<off_t>(io.offset + io.moved_);
      // A piece that was moved whole is empty; O_DIRECT takes no empty first piece.
      const bool first_done = io.left_[0].iov_len == 0;
      const iovec* pieces = first_done ? io.left_ + 1 : io.left_;
      const int count = first_done || io.left_[1].iov_len == 0 ? 1 : 2;
      return result_of(io.kind == IoKind::kRead ? ::preadv(io.fd, pieces, count, offset)
                                                : ::pwritev(io.fd, pieces, count, offset));
    }
    case IoKind::kDataSync:
      return result_of(::fdatasync(io.fd));
    case IoKind::kSync:
      return result_of(::fsync(io.fd));
    case IoKind::kOpen:
      return result_of(::openat(io.fd, io.path.c_str(), io.flags, 0600));
    case IoKind::kAllocate:
      return result_of(
          ::fallocate(io.fd, 0, static_cast<off_t>(io.offset), static_cast<off_t>(io.bytes)));
    case IoKind::kUnlink:
      return result_of(::unlinkat(io.fd, io.path.c_str(), 0));
  }
  return -EINVAL;
}

}  // namespace kvsidecar
