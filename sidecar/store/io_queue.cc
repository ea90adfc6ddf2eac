// SPDX-License-Identifier: Apache-2.0
#include "sidecar/store/io_queue.h"

#include <fcntl.h>
#include <liburing.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "sidecar/store/segment_format.h"

namespace kvsidecar {
namespace {

constexpr int32_t kInterruptionsMax = 100;

std::string_view fault_point_of(IoKind kind) {
  switch (kind) {
    case IoKind::kRead:
      return "store.read";
    case IoKind::kWrite:
      return "store.write";
    case IoKind::kDataSync:
    case IoKind::kSync:
      return "store.fsync";
    case IoKind::kOpen:
      return "store.open";
    case IoKind::kAllocate:
      return "store.allocate";
    case IoKind::kUnlink:
      return "store.unlink";
  }
  return {};
}

bool is_transfer(IoKind kind) { return kind == IoKind::kRead || kind == IoKind::kWrite; }

}  // namespace

std::unique_ptr<Io> make_transfer(IoKind kind, int fd, uint64_t offset, std::byte* data,
                                  uint64_t bytes, std::function<void(int64_t)> done) {
  auto io = std::make_unique<Io>();
  io->kind = kind;
  io->load = kind == IoKind::kRead;
  io->fd = fd;
  io->offset = offset;
  io->pieces[0] = {data, bytes};
  io->piece_count = 1;
  io->done = std::move(done);
  return io;
}

IoQueue::IoQueue(std::unique_ptr<Uring> ring, Clock& clock, FaultPoints& faults, StoreLog log)
    : ring_(std::move(ring)), clock_(clock), faults_(faults), log_(std::move(log)) {}

IoQueue::~IoQueue() { KV_CHECK(in_flight_.empty()); }

Status IoQueue::register_memory(std::span<std::byte> memory) {
  if (ring_ == nullptr) return {Code::kUnavailable, "io_uring is not available"};
  return ring_->register_memory(memory);
}

void IoQueue::start(std::unique_ptr<Io> io) {
  if (is_transfer(io->kind)) KV_CHECK(io->offset % kBlockBytes == 0 && io->length() > 0);
  Queue& queue = queue_of(*io);
  queue.push_back(std::move(io));
}

void IoQueue::start_probe(std::unique_ptr<Io> io) { probes_.push_back(std::move(io)); }

void IoQueue::fail_waiting(int error) {
  for (Queue* queue : {&loads_, &prefetches_, &stores_}) {
    Queue kept;
    for (auto& io : *queue) {
      if (io->patient)
        kept.push_back(std::move(io));
      else
        failed_.emplace_back(std::move(io), error);
    }
    *queue = std::move(kept);
  }
}

bool IoQueue::has_completion() const {
  if (!failed_.empty()) return true;
  const bool any = (ring_ == nullptr ? waiting() > 0 && !path_full_ : ring_->has_completion()) ||
                   (path_ != nullptr && path_->has_completion());
  return any && faults_.fail("store.stall") == 0;
}

uint64_t IoQueue::oldest_ns() const {
  uint64_t oldest = path_ == nullptr ? 0 : path_->oldest_ns();
  for (const auto& [key, io] : in_flight_)
    if (!io->by_path_ && (oldest == 0 || io->begun_ns_ < oldest)) oldest = io->begun_ns_;
  return oldest;
}

bool IoQueue::turn() {
  bool did = reap();
  while (!failed_.empty()) {
    auto [io, error] = std::move(failed_.front());
    failed_.pop_front();
    complete(std::move(io), -error);
    did = true;
  }
  return submit_waiting() || did;
}

bool IoQueue::reap() {
  // A stalled device, for tests: it may have answered, but nobody hears it.
  if ((ring_ == nullptr && path_ == nullptr) || faults_.fail("store.stall") != 0) return false;
  bool did = path_ != nullptr && reap_path();
  Uring::Completion completion;
  while (ring_ != nullptr && ring_->next_completion(completion)) {
    did = true;
    complete(take_in_flight(completion.user), completion.result);
  }
  return did;
}

std::unique_ptr<Io> IoQueue::take_in_flight(uint64_t user) {
  const auto at = in_flight_.find(reinterpret_cast<Io*>(user));
  KV_CHECK(at != in_flight_.end());
  auto io = std::move(at->second);
  in_flight_.erase(at);
  return io;
}

void IoQueue::complete(std::unique_ptr<Io> io, int64_t result) {
  int64_t final_result = result;
  const bool interrupted = result == -EINTR || result == -EAGAIN;
  const bool again = interrupted ? ++io->stuck_ < kInterruptionsMax
                                 : is_transfer(io->kind) && continues(*io, result, final_result);
  if (again) {
    Queue& queue = queue_of(*io);
    queue.push_front(std::move(io));
    return;
  }
  auto done = std::move(io->done);
  done(final_result);
}

bool IoQueue::continues(Io& io, int64_t result, int64_t& final_result) {
  if (result == -EINVAL && !io.by_path_) return drop_direct(io);
  if (result < 0) return false;
  const uint64_t length = io.length();
  const uint64_t reached = io.moved_ + static_cast<uint64_t>(result);
  final_result = static_cast<int64_t>(reached);
  if (reached >= length) return false;
  // O_DIRECT goes on at a block's border only: the block that was cut is moved again.
  const uint64_t from = align_down(reached, kBlockBytes);
  if (from > io.moved_) {
    io.moved_ = from;
    io.stuck_ = 0;
    return true;
  }
  if (++io.stuck_ < 3 && result > 0) return true;
  if (io.kind == IoKind::kWrite) final_result = -EIO;
  return false;
}

bool IoQueue::drop_direct(Io& io) {
  const int flags = ::fcntl(io.fd, F_GETFL);
  if (flags < 0 || (flags & O_DIRECT) == 0) return false;
  if (::fcntl(io.fd, F_SETFL, flags & ~O_DIRECT) != 0) return false;
  if (std::exchange(direct_, false))
    log_(StoreLogLevel::kWarning, "store_direct",
         "the file system refused an aligned O_DIRECT transfer; the store goes on with buffered "
         "I/O");
  return true;
}

int IoQueue::fault_at(const Io& io) { return faults_.fail(fault_point_of(io.kind)); }

bool IoQueue::submit_waiting() {
  if (ring_ == nullptr) return run_waiting();
  bool did = false;
  for (Queue* queue : {&probes_, &loads_, &prefetches_, &stores_}) {
    while (may_start(*queue)) {
      if (const int error = fault_at(*queue->front())) {
        failed_.emplace_back(std::move(queue->front()), error);
        queue->pop_front();
        did = true;
        continue;
      }
      const TransferPath::Taken taken = offer(queue->front());
      if (taken == TransferPath::Taken::kFull) break;
      if (taken == TransferPath::Taken::kNotMine) {
        if (!launch(queue->front())) break;
        unsubmitted_ = true;
      }
      queue->pop_front();
      did = true;
    }
  }
  if (path_ != nullptr) path_->submit();
  if (path_ != nullptr) note_waiting();
  if (unsubmitted_) {
    const int submitted = ring_->submit();
    // These leave the entries in the ring; the next turn submits them.
    const bool again = submitted == -EAGAIN || submitted == -EBUSY || submitted == -EINTR;
    KV_CHECK(submitted >= 0 || again);
    unsubmitted_ = again;
  }
  return did;
}

bool IoQueue::launch(std::unique_ptr<Io>& io) {
  io_uring_sqe* sqe = ring_->next_submission();
  if (sqe == nullptr) return false;
  if (io->begun_ns_ == 0) io->begun_ns_ = std::max<uint64_t>(clock_.now_ns(), 1);
  Io& o = *io;
  o.by_path_ = false;
  switch (o.kind) {
    case IoKind::kRead:
    case IoKind::kWrite: {
      fill(o);
      const bool read = o.kind == IoKind::kRead;
      const uint64_t offset = o.offset + o.moved_;
      const bool single = o.left_[0].iov_len == 0 || o.left_[1].iov_len == 0;
      const iovec& piece = o.left_[0].iov_len == 0 ? o.left_[1] : o.left_[0];
      const auto bytes = static_cast<unsigned>(piece.iov_len);
      const int buffer =
          single ? ring_->buffer_number(static_cast<std::byte*>(piece.iov_base), bytes) : -1;
      if (buffer >= 0 && read)
        io_uring_prep_read_fixed(sqe, o.fd, piece.iov_base, bytes, offset, buffer);
      else if (buffer >= 0)
        io_uring_prep_write_fixed(sqe, o.fd, piece.iov_base, bytes, offset, buffer);
      else if (read)
        io_uring_prep_readv(sqe, o.fd, single ? &piece : o.left_, single ? 1 : 2, offset);
      else
        io_uring_prep_writev(sqe, o.fd, single ? &piece : o.left_, single ? 1 : 2, offset);
      break;
    }
    case IoKind::kDataSync:
      io_uring_prep_fsync(sqe, o.fd, IORING_FSYNC_DATASYNC);
      break;
    case IoKind::kSync:
      io_uring_prep_fsync(sqe, o.fd, 0);
      break;
    case IoKind::kOpen:
      io_uring_prep_openat(sqe, o.fd, o.path.c_str(), o.flags, 0600);
      break;
    case IoKind::kAllocate:
      io_uring_prep_fallocate(sqe, o.fd, 0, static_cast<off_t>(o.offset),
                              static_cast<off_t>(o.bytes));
      break;
    case IoKind::kUnlink:
      io_uring_prep_unlinkat(sqe, o.fd, o.path.c_str(), 0);
      break;
  }
  io_uring_sqe_set_data(sqe, &o);
  in_flight_.emplace(&o, std::move(io));
  return true;
}

// What is left of the pieces after moved_ bytes.
void IoQueue::fill(Io& io) {
  uint64_t skip = io.moved_;
  for (unsigned i = 0; i < 2; ++i) {
    const uint64_t have = i < io.piece_count ? io.pieces[i].iov_len : 0;
    const uint64_t cut = std::min(skip, have);
    io.left_[i] = {static_cast<std::byte*>(io.pieces[i].iov_base) + cut, have - cut};
    skip -= cut;
  }
  // A device that moves half of what it is asked, for tests.
  const auto point = io.kind == IoKind::kRead ? "store.short_read" : "store.short_write";
  const uint64_t left = io.left_[0].iov_len + io.left_[1].iov_len;
  if (left <= kBlockBytes || faults_.fail(point) == 0) return;
  const uint64_t half = align_up(left / 2, kBlockBytes);
  const uint64_t first = std::min<uint64_t>(io.left_[0].iov_len, half);
  io.left_[0].iov_len = first;
  io.left_[1].iov_len = std::min<uint64_t>(io.left_[1].iov_len, half - first);
}

}  // namespace kvsidecar
