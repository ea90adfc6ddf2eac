// SPDX-License-Identifier: Apache-2.0
// One end each of the two single-producer single-consumer rings of a session, over memory laid out
// as layout.h says. None owns the memory; none blocks; each object belongs to one thread. Own
// positions are private and only published; the peer's is read once per call. A peer's position
// that can't be (behind, or ahead by more than the ring) is an error and the caller ends the
// session.
#pragma once
#include "ipc/layout.h"
#include "ipc/requests.h"
#include "ipc/result.h"
#include "ipc/ring_position.h"

namespace kvsidecar {

// The mapped memory of one session, as either side sees it.
struct SessionMemory {
  std::byte* submission = nullptr;
  std::byte* completion = nullptr;  // read-only on the client's side
  std::byte* cells = nullptr;
  Geometry geometry{};

  SubmissionHead& submission_head() const { return *reinterpret_cast<SubmissionHead*>(submission); }
  InfoPage& info() const { return *reinterpret_cast<InfoPage*>(completion); }
  CellPage& cell_page() const { return *reinterpret_cast<CellPage*>(cells); }
  std::atomic<uint64_t>* fence(uint32_t index) const;  // null when out of range
  std::atomic<uint64_t>* claim(uint32_t index) const;  // null when out of range
};

// Client: publishes requests.
class SubmissionProducer {
 public:
  explicit SubmissionProducer(const SessionMemory&);
  // Copies the record into a cell, or through an arena block when it doesn't fit one; false when
  // the ring or the arena is full. Not visible to the daemon until publish().
  bool push(RecordHead head, Bytes payload);
  // Whether it would take a record of any size now.
  bool has_room();
  // Makes all pushed records visible. Returns true when the daemon sleeps and must be kicked.
  bool publish();

 private:
  uint32_t free_block();  // of the arena; arena_blocks when there is none

  SessionMemory memory_;
  WriterPosition position_;
  uint64_t consumed_ = 0;  // as last read: the line is the daemon's, fetching it costs
  uint64_t arena_used_[64] = {};  // position after which each block is free again, 0 = free
};

// Daemon: takes requests. pop() copies head and payload out before anything is looked at.
class SubmissionConsumer {
 public:
  explicit SubmissionConsumer(const SessionMemory&);
  // 1: a record is in `head` and `payload` (16-byte aligned, kRequestBytesMax capacity, length
  // set); 0: nothing there. Error: a hostile position, length or arena range; end the session.
  Result<int> pop(RecordHead& head, std::byte* payload, uint32_t& length);
  bool has_records() const;  // cheap peek, for the re-check before sleeping
  void publish_consumed();   // frees the cells of everything popped so far

 private:
  SessionMemory memory_;
  ReaderPosition position_;
};

// Daemon: publishes answers. Space is reserved at admission, so push can't fail.
class CompletionProducer {
 public:
  explicit CompletionProducer(const SessionMemory&);
  // Reserves `cells`; false when the credit is used up (the client floods or doesn't read). Error:
  // hostile position.
  Result<bool> reserve(uint32_t cells);
  void push(const CompletionHead& head,
            Bytes payload);  // takes one reserved cell; payload <= 4032 bytes
  void unreserve(uint32_t cells);
  // Makes all pushed cells visible; rings the doorbell. Returns the client's `client_sleeps` bits:
  // 1 futex wake needed, 2 notify bell needed.
  uint32_t publish();

 private:
  SessionMemory memory_;
  WriterPosition position_;
  uint32_t reserved_ = 0;
  uint64_t consumed_ = 0;  // as last read: the line is the client's, fetching it costs
};

// Client: takes answers.
class CompletionConsumer {
 public:
  explicit CompletionConsumer(const SessionMemory&);
  // The next cell, or null: a private copy of its head, and the payload where it lies, its length
  // clamped. Valid until consume().
  const CompletionHead* peek(Bytes& payload);
  void consume();

 private:
  SessionMemory memory_;
  ReaderPosition position_;
  CompletionHead head_{};
};

}  // namespace kvsidecar
