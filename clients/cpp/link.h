// SPDX-License-Identifier: Apache-2.0
// One session with one daemon, from handshake to its end: the rings, and what is in flight on them.
// It outlives the connection while gets of it are still being copied. Under the client's mutex;
// only the shared words that waiting reads (doorbell) are touched without it.
#pragma once
#include <deque>
#include <unordered_map>
#include <vector>

#include "clients/cpp/claim_pool.h"
#include "clients/cpp/staging.h"
#include "ipc/claim.h"
#include "ipc/handshake_io.h"

namespace kvsidecar::clientlib {

// A request in flight. It keeps its claim words, staging and progress word until its completion was
// read or the daemon is dead, also when its operation ended earlier.
struct Record {
  uint64_t request = 0;
  RecordType type = RecordType::kNoop;
  uint64_t op = 0;                 // 0: nobody waits for it any more
  uint32_t first = 0, count = 0;   // items of the operation
  uint32_t credits = 1;            // completion cells it has asked for
  bool group_lease = false;        // a lookup's lease that other members share
  std::vector<uint32_t> claims;    // one an item
  std::vector<StagingSlot> slots;  // one an item, or none
  uint32_t progress = kNoIndex;
  uint64_t progress_before = 0;  // what the word held when the get was sent
  bool progress_fresh = false;   // the word was seen to start again
};

struct Link {
  explicit Link(Connection&& made)
      : connection(std::move(made)),
        memory(connection.share.memory()),
        producer(memory),
        consumer(memory),
        claims(memory.geometry.claims),
        progress_words(memory.geometry.progress_words),
        credits(memory.geometry.completion_cells) {}

  Connection connection;
  SessionMemory memory;
  SubmissionProducer producer;
  CompletionConsumer consumer;
  ClaimPool claims, progress_words;
  uint32_t credits;  // completion cells that no record in flight has asked for
  uint64_t last_request = 0;
  std::unordered_map<uint64_t, Record> records;
  std::deque<uint64_t> queue;  // operations with something to send, in order
  uint64_t half_sent = 0;      // a lookup's request: nothing may come between its records
  uint64_t text_op = 0;        // the one stat or why in flight: the daemon keeps one text a session
  std::deque<uint64_t> text_queue;
  bool ready = false;  // attached and registered
  bool lost = false;   // hung up, or the daemon is dead
  bool dead = false;   // the daemon's pidfd has fired

  Claim claim(const Record& record, uint32_t item) const {
    return {memory.claim(record.claims[item]), record.request, static_cast<uint16_t>(item)};
  }
  // Pushes one record that is answered by one cell; false when there is no room now. Nothing is
  // visible before publish().
  bool push(const Record& record, uint64_t deadline_ns, Bytes payload, uint32_t credits_kept) {
    if (lost || credits <= credits_kept) return false;
    if (half_sent != 0 && half_sent != record.request) return false;
    RecordHead head{};
    head.type = static_cast<uint16_t>(record.type);
    head.request = record.request;
    head.deadline_ns = deadline_ns;
    if (!producer.push(head, payload)) return false;
    --credits;
    return true;
  }
  void publish() {
    if (producer.publish()) eventfd_signal(connection.share.kick.get());
  }
};

// Credits that operations leave to cancels, releases and registrations.
inline constexpr uint32_t kCreditsKept = 2;

}  // namespace kvsidecar::clientlib
