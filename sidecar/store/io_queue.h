// SPDX-License-Identifier: Apache-2.0
// I/O of the store, one object per operation: loads go before stores, a bounded number is in
// flight, short transfers are continued, O_DIRECT that a file system refuses is dropped, faults are
// injected. Without a ring (io_uring forbidden) each operation runs in turn(), one a call. Reads
// and writes may have a path of their own (USRBIO), which is asked first. Each Io's `done` is
// called exactly once, from turn(), and owns what the Io works on until then. One owner (the store
// worker).
#pragma once
#include <sys/uio.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "ipc/result.h"
#include "sidecar/env.h"
#include "sidecar/store/store_log.h"
#include "sidecar/store/transfer_path.h"
#include "sidecar/store/uring.h"

namespace kvsidecar {

enum class IoKind : uint8_t { kRead, kWrite, kDataSync, kSync, kOpen, kAllocate, kUnlink };

struct Io {
  IoKind kind = IoKind::kRead;
  bool load = false;               // somebody waits for it: goes first
  bool prefetch = false;           // a load that nobody waits for yet: goes behind the others
  bool patient = false;            // waits while the breaker is open instead of being failed
  int fd = -1;                     // of the file; of the folder for kOpen and kUnlink
  uint64_t offset = 0, bytes = 0;  // kAllocate
  iovec pieces[2] = {};            // kRead, kWrite: 4 KiB aligned address, offset and length
  unsigned piece_count = 0;
  std::string path;  // kOpen, kUnlink
  int flags = 0;     // kOpen
  // Bytes moved (less than asked: end of file), the new fd, 0, or -errno.
  std::function<void(int64_t result)> done;

  uint64_t length() const { return pieces[0].iov_len + (piece_count > 1 ? pieces[1].iov_len : 0); }

 private:
  friend class IoQueue;
  uint64_t moved_ = 0, begun_ns_ = 0;
  int32_t stuck_ = 0;
  bool by_path_ = false;
  iovec left_[2] = {};
};

// A read or write of one or two pieces.
std::unique_ptr<Io> make_transfer(IoKind kind, int fd, uint64_t offset, std::byte* data,
                                  uint64_t bytes, std::function<void(int64_t)> done);

class IoQueue {
 public:
  // In flight: 32 pages, each with its trailer, half of it for prefetches. The breaker's probe may
  // come on top.
  static constexpr size_t kDepth = 64;

  // ring: null = none.
  IoQueue(std::unique_ptr<Uring> ring, Clock& clock, FaultPoints& faults, StoreLog log);
  ~IoQueue();  // nothing may be in flight

  // Before the first start(); outlives the queue.
  void use_path(TransferPath* path) { path_ = path; }
  void start(std::unique_ptr<Io> io);
  void start_probe(std::unique_ptr<Io> io);  // beyond the depth
  // Reaps, calls `done`, submits. True when it did something.
  bool turn();
  bool has_completion() const;
  bool idle() const { return in_flight_.empty() && waiting() == 0; }
  size_t in_flight() const { return in_flight_.size(); }
  size_t waiting() const {
    return loads_.size() + prefetches_.size() + stores_.size() + probes_.size() + failed_.size();
  }
  // When the oldest in flight began that isn't given up for lost; 0 = none.
  uint64_t oldest_ns() const;
  size_t quarantined() const { return path_ == nullptr ? 0 : path_->quarantined(); }
  // How long a thread may sleep that waits for what is in flight.
  uint64_t wait_ns(uint64_t now_ns) const;
  // What the kernel has not been given yet ends with -error, from the next turn(); not what is
  // patient.
  void fail_waiting(int error);
  bool direct() const { return direct_; }
  void set_direct(bool direct) { direct_ = direct; }
  bool has_ring() const { return ring_ != nullptr; }
  Status register_memory(std::span<std::byte> memory);
  bool is_registered(const std::byte* data, uint64_t bytes) const {
    return ring_ != nullptr && ring_->buffer_number(data, bytes) >= 0;
  }

 private:
  using Queue = std::deque<std::unique_ptr<Io>>;
  bool reap();
  bool reap_path();
  bool submit_waiting();
  bool run_waiting();
  int32_t run_now(Io& io);
  Queue& queue_of(const Io& io) { return !io.load ? stores_ : io.prefetch ? prefetches_ : loads_; }
  // kYes: it is in flight, and the pointer empty.
  TransferPath::Taken offer(std::unique_ptr<Io>& io);
  std::unique_ptr<Io> take_in_flight(uint64_t user);
  bool may_start(const Queue& queue) const;
  void note_waiting();
  int fault_at(const Io& io);
  bool launch(std::unique_ptr<Io>& io);  // false: no room in the ring
  void fill(Io& io);
  void complete(std::unique_ptr<Io> io, int64_t result);
  bool continues(Io& io, int64_t result, int64_t& final_result);
  bool drop_direct(Io& io);

  std::unique_ptr<Uring> ring_;
  Clock& clock_;
  FaultPoints& faults_;
  StoreLog log_;
  TransferPath* path_ = nullptr;
  bool direct_ = false, unsubmitted_ = false;
  bool path_full_ = false;  // without a ring: all that waits waits for the path
  Queue probes_, loads_, prefetches_, stores_;
  std::deque<std::pair<std::unique_ptr<Io>, int>> failed_;  // with the errno they end with
  std::unordered_map<Io*, std::unique_ptr<Io>> in_flight_;
};

}  // namespace kvsidecar
