// SPDX-License-Identifier: Apache-2.0
// Operations and links: what is sent, answered, withdrawn and finished. No thread, no clock, no
// socket of its own: every call is made under the client's mutex with the time given. feed.cc
// sends, answers.cc takes completions in, settle.cc ends what is late, cancelled or lost.
#pragma once
#include <functional>
#include <unordered_map>

#include "clients/cpp/link.h"
#include "clients/cpp/objects.h"
#include "clients/cpp/operation.h"

namespace kvsidecar::clientlib {

// How long an item that the daemon has settled waits for its status beyond the deadline.
inline constexpr uint64_t kAnswerGraceNs = 20'000'000;
inline constexpr uint64_t kOverdueCheckNs = 2'000'000;

class Core {
 public:
  // Takes the operation in and sends what there is room for. op.link must be the current link.
  Operation& begin(std::unique_ptr<Operation> op, uint64_t now_ns);
  // One turn: answers of all links, deadlines, and what can be sent now.
  void tick(uint64_t now_ns);
  Operation* find(uint64_t id);
  size_t operations() const { return ops_.size(); }
  // When to tick at the latest; UINT64_MAX: never. May be early, for what has finished since.
  uint64_t next_deadline_ns() const { return look_soonest_ns_; }
  bool feeding() const;               // something waits for room in a ring

  // Gives up what can be given up. free_items: null, or one byte an item.
  void cancel(Operation& op, uint64_t now_ns, uint8_t* free_items);
  bool revoke(Operation& op, uint32_t item);            // true: its memory is the engine's
  void finish_revoked(Operation& op, uint64_t now_ns);  // after revoke(): when nothing is left
  bool erase(Operation& op, uint64_t now_ns);           // false: a get of it is being copied

  // The link has hung up (dead = false) or its daemon is dead. Its operations end UNAVAILABLE, but
  // for gets that a living daemon is copying.
  void lose(std::shared_ptr<Link> link, bool dead, uint64_t now_ns);
  // Ends all operations as far as possible; true when no daemon can write any more.
  bool give_up_all(uint64_t now_ns);

  // Whether copies may still touch a region although the daemon would not say so.
  bool uses_region(uint64_t region) const;
  uint64_t progress(const Operation& op);
  void forget_event(Operation& op);

  std::shared_ptr<Link> current;              // null: not connected
  std::vector<std::shared_ptr<Link>> fading;  // lost, but something of theirs is still held
  Objects objects;
  std::list<kvs_event> events;  // not reported yet
  uint64_t changes = 0;         // operations finished or overdue so far

  // Staging: made by the client at first need, registered on every link.
  StagingSpace staging{0};
  std::byte* staging_base = nullptr;
  uint64_t staging_region = 0;  // the client's id

 private:
  enum class Sent : uint8_t { kAll, kMore, kNoRoom, kParked };
  void enqueue(Operation& op, bool first);
  void feed(Link& link, uint64_t now_ns);
  Sent send_next(Link& link, Operation& op, uint64_t now_ns);
  Sent send_ready(Link& link, Operation& op);
  Sent send_lookup(Link& link, Operation& op);
  Sent send_delete(Link& link, Operation& op);
  Sent send_text(Link& link, Operation& op);
  Sent send_items(Link& link, Operation& op, uint64_t now_ns);
  bool stage(Operation& op, Record& record);
  void encode_items(Operation& op, const Record& record);
  void unstage(Record& record);
  void send_aside(Link& link, RecordType type, uint64_t now_ns);  // encoded_, nobody waits

  void take_answers(Link& link, uint64_t now_ns);
  void take_answer(Link& link, const CompletionHead& head, Bytes payload, uint64_t now_ns);
  void answer_items(Operation& op, const Link& link, const Record& record,
                    const CompletionHead& head, Bytes payload);
  void answer_lookup(Operation& op, Record& record, const CompletionHead& head, Bytes payload);
  void answer_text(Link& link, Operation& op, const CompletionHead& head, Bytes payload);
  void answer_orphan(Link& link, const Record& record, const CompletionHead& head, uint64_t now_ns);
  static bool is_copied(const Link& link, const Record& record);
  void release_record(Link& link, Record& record);
  void sweep(Link& link);

  void look_at(Operation& op, uint64_t when_ns);
  void expire(Operation& op, uint64_t now_ns);
  void expire_due(uint64_t now_ns);
  void withdraw(Operation& op, Code code, bool settled_too);
  bool withdraw_item(Operation& op, const Link& link, const Record& record, uint32_t item,
                     Code code, bool settled_too);
  void settle(Operation& op, uint32_t item, Code code);
  void finish(Operation& op, Code code, uint64_t now_ns);
  void finish_if_answered(Operation& op, Code code, uint64_t now_ns);
  void say(Operation& op, uint32_t kind);
  bool fence_reached(const Operation& op) const;

  std::unordered_map<uint64_t, std::unique_ptr<Operation>> ops_;
  uint64_t look_soonest_ns_ = UINT64_MAX;  // at or before any unfinished operation's look_at_ns
  std::deque<uint64_t> parked_;  // staged operations that wait for a fence or for staging
  uint64_t last_op_ = 0;
  Encoded encoded_;  // of the record that is being made
};

}  // namespace kvsidecar::clientlib
