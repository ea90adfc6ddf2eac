// SPDX-License-Identifier: Apache-2.0
// The store's reads and writes by USRBIO: one ring a class, requests within one chunk each, put
// together again. Nothing here waits: the mount thread makes and ends what this works with.
//
// A deadline cancels nothing. A transfer past it is quarantined: it is counted, and its slot,
// buffer and file stay taken until its completion comes after all, or until the fuse daemon is
// proven dead and a grace time is over (what its network card was told may still land).
//
// Rules of the interface that are kept here, with the tests that hold them:
//  - a write's bytes are final before prepare (AWriteThatRunsBeforeItsSubmitIsRight)
//  - -EAGAIN is normal in spite of counts (ARingThatTakesNoMoreIsAskedAgainAfterACompletionOnly)
//  - completions go by number and generation (CompletionsInAnyOrderReachTheirTransfers)
//  - a count that is too large is an error (ACountBeyondTheRequestIsAnError)
//  - no buffer is free before its I/O ended (ALostReadKeepsItsMemoryUntilItEnds)
#pragma once
#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "sidecar/env.h"
#include "sidecar/store/transfer_path.h"
#include "sidecar/store/usrbio/in_flight_table.h"
#include "sidecar/store/usrbio/ring_lane.h"

namespace kvsidecar {

class UsrbioTransfers final : public TransferPath {
 public:
  struct Options {
    uint64_t chunk_bytes = 1 << 20;     // of the file system, or a divisor of it
    uint64_t staging_bytes = 1 << 20;   // of one staging buffer
    uint64_t lost_ns = 75'000'000'000;  // the server itself may take 60 s to fail an I/O
    uint64_t grace_ns = 1'000'000'000;  // from the proof of the fuse daemon's death
  };
  using Rings = std::array<std::unique_ptr<usrbio::Ring>, kTransferClasses>;
  // staging: lies in memory that is added at once; may be empty.
  UsrbioTransfers(const Options& options, Clock& clock, UsrbioCounters& counters, Rings rings,
                  std::span<std::byte> staging);
  ~UsrbioTransfers() override;  // nothing may be in flight

  Taken start(const Transfer& transfer, uint64_t user) override;
  void submit() override;
  bool next_completion(Completion& completion) override;
  bool has_completion() const override;
  size_t in_flight() const override { return active_.size() + ready_.size(); }
  size_t quarantined() const override { return quarantined_; }
  uint64_t oldest_ns() const override;
  void note_waiting(TransferClass kind, size_t count) override;

  // Memory that has proven itself. Never removed.
  void add_memory(std::unique_ptr<usrbio::Memory> memory);
  void add_file(std::unique_ptr<usrbio::File> file);
  std::unique_ptr<usrbio::File> remove_file(int fd);  // null: it was none; no transfer uses it
  // Reads a block far behind the file's end into `memory`, which changes nothing there; whether the
  // fuse daemon can use the memory shows in the result: 0, or -errno. False: not now.
  bool probe(const usrbio::Memory& memory, int fd, std::function<void(int64_t result)> done);

  // A class whose ring will take no more: it is given another, while the old one stays for what
  // never ended.
  std::optional<TransferClass> stuck() const;
  Status ring_fault(TransferClass kind) const;  // of a stuck one; OK: an I/O there never ended
  void retire_ring(TransferClass kind);         // until set_ring() nothing of the class is started
  void set_ring(TransferClass kind, std::unique_ptr<usrbio::Ring> ring);
  size_t lost_writes() const;  // that are quarantined
  // The fuse daemon's death was proven now. What is in flight ends with -ENOTCONN after the grace
  // time, what comes at once.
  void mount_lost();

 private:
  struct Request {
    MovingTransfer* moving = nullptr;
    uint32_t number = 0;  // among its transfer's
    std::byte* staged = nullptr;
    RingUse* use = nullptr;
  };
  RingLane& lane(TransferClass kind) { return lanes_[static_cast<size_t>(kind)]; }
  Taken take(std::unique_ptr<MovingTransfer> moving);
  bool start_requests(RingLane& lane, MovingTransfer& moving);  // false: not all of them
  int start_request(RingLane& lane, MovingTransfer& moving);
  void pump(RingLane& lane);
  void poll_rings();
  bool poll_ring(RingUse& use);  // anything came
  void request_ended(uint64_t number, int64_t result);
  void finish(MovingTransfer& moving, int64_t result);
  void watch(uint64_t now_ns);
  void end_all();

  const Options options_;
  Clock& clock_;
  UsrbioCounters& counters_;
  MemoryTable memories_;
  std::array<RingLane, kTransferClasses> lanes_;
  std::unordered_map<int, std::unique_ptr<usrbio::File>> files_;
  Staging staging_;
  InFlightTable<Request> requests_;
  std::vector<std::unique_ptr<MovingTransfer>> active_;
  std::deque<Completion> ready_;
  size_t quarantined_ = 0;
  uint64_t lost_since_ns_ = 0;  // 0: the mount is there
  uint64_t next_watch_ns_ = 0;
};

}  // namespace kvsidecar
