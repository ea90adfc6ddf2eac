// SPDX-License-Identifier: Apache-2.0
// The daemon's end of one session for completion_fuzz: answers as the input wants them, claims as
// they may be moved, and what it has claimed so far.
#pragma once
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "clients/cpp/link.h"
#include "ipc/handshake_io.h"
#include "tests/fuzz/completion_input.h"
#include "tests/fuzz/fuzz_input.h"

namespace kvsidecar::fuzz {

class HostileDaemon {
 public:
  struct Item {
    uint32_t word;
    uint64_t staging;
    bool done;  // the claim was won, and moved to DONE
  };
  struct Lent {
    uint64_t op;
    RecordType type;
    uint32_t first;
    bool staged;
    std::vector<Item> items;
  };

  explicit HostileDaemon(bool crowded);
  void step(Step step, FuzzInput& in);
  void die() { dead_ = true; }

  // Records that the client made since looked(); only they are lent anew.
  bool is_new(uint64_t request) const { return request > seen_; }
  void looked() { seen_ = link->last_request; }
  // Whether the daemon may be writing the item right now (a put: reading it).
  bool is_copying(uint64_t request, uint32_t item) const;
  // All such items.
  const std::vector<std::pair<uint64_t, uint32_t>>& copying();
  // Whether one of them has the item's claim word or writes the item's staging.
  bool still_writes(bool same_session, const Item& item, bool staged);

  std::shared_ptr<clientlib::Link> link;
  std::map<uint64_t, Lent> lent;  // puts and gets by request

 private:
  Claim claim(uint64_t request, uint32_t item) const;
  bool pick_item(FuzzInput& in, uint64_t& request, uint32_t& item);
  uint64_t pick_request(FuzzInput& in) const;
  void take_all();
  void copy(uint64_t request, uint32_t item);
  void end(uint64_t request, uint32_t item, uint8_t how);
  void serve(uint64_t request);
  void answer(FuzzInput& in);
  void word(FuzzInput& in);
  void write(const CompletionHead& head, Bytes payload);

  SessionShare share_;
  SessionMemory memory_;
  SubmissionConsumer submissions_;
  std::vector<RecordHead> taken_;
  std::vector<std::byte> buffer_;
  std::vector<std::pair<uint64_t, uint32_t>> copying_;
  uint64_t written_ = 0, seen_ = 0;
  bool dead_ = false;
};

}  // namespace kvsidecar::fuzz
