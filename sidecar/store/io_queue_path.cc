// SPDX-License-Identifier: Apache-2.0
// The queue's reads and writes by a path of their own.
#include <algorithm>

#include "sidecar/store/io_queue.h"
#include "sidecar/store/io_wait.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kAnnouncedWaitNs = 1'000'000;

std::span<std::byte> span_of(const iovec& piece) {
  return {static_cast<std::byte*>(piece.iov_base), piece.iov_len};
}

}  // namespace

// What is given up for lost mustn't keep the others out.
bool IoQueue::may_start(const Queue& queue) const {
  if (queue.empty()) return false;
  const size_t depth = &queue == &prefetches_ ? kDepth / 2 : kDepth;
  return &queue == &probes_ || in_flight_.size() < depth + quarantined();
}

TransferPath::Taken IoQueue::offer(std::unique_ptr<Io>& io) {
  Io& o = *io;
  const bool moves = o.kind == IoKind::kRead || o.kind == IoKind::kWrite;
  if (path_ == nullptr || !moves) return TransferPath::Taken::kNotMine;
  fill(o);
  Transfer transfer;
  transfer.kind = o.kind == IoKind::kWrite ? TransferClass::kWrite
                  : o.prefetch             ? TransferClass::kPrefetch
                                           : TransferClass::kDemandRead;
  transfer.fd = o.fd;
  transfer.offset = o.offset + o.moved_;
  const bool first_done = o.left_[0].iov_len == 0;
  transfer.pieces[0] = span_of(o.left_[first_done ? 1 : 0]);
  if (!first_done) transfer.pieces[1] = span_of(o.left_[1]);
  const auto taken = path_->start(transfer, reinterpret_cast<uint64_t>(&o));
  if (taken != TransferPath::Taken::kYes) return taken;
  if (o.begun_ns_ == 0) o.begun_ns_ = std::max<uint64_t>(clock_.now_ns(), 1);
  o.by_path_ = true;
  in_flight_.emplace(&o, std::move(io));
  return taken;
}

bool IoQueue::reap_path() {
  bool did = false;
  TransferPath::Completion completion;
  while (path_->next_completion(completion)) {
    did = true;
    complete(take_in_flight(completion.user), completion.result);
  }
  return did;
}

void IoQueue::note_waiting() {
  path_->note_waiting(TransferClass::kDemandRead, loads_.size());
  path_->note_waiting(TransferClass::kPrefetch, prefetches_.size());
  path_->note_waiting(TransferClass::kWrite, stores_.size());
}

uint64_t IoQueue::wait_ns(uint64_t now_ns) const {
  const uint64_t oldest = path_ == nullptr ? 0 : path_->oldest_ns();
  if (oldest == 0) return kAnnouncedWaitNs;
  return nap_ns(now_ns > oldest ? now_ns - oldest : 0);
}

}  // namespace kvsidecar
