// SPDX-License-Identifier: Apache-2.0
// One engine process as the simulator plays it: attaches, does whatever an engine may do (and at
// times what none should), dies, comes back. It checks every answer, and that its memory is touched
// only when it may be. actor.cc: life; actor_moves.cc: requests; actor_oddities.cc: what none
// should; actor_answers.cc: checks.
#pragma once
#include <memory>

#include "tests/sim/blocks.h"
#include "tests/sim/shared.h"

namespace kvsidecar::sim {

constexpr uint32_t kBlocks = 24;  // of each of an engine's layouts

class Actor {
 public:
  Actor(Shared& shared, int number, ActorPlan plan);
  ~Actor();

  void act();          // one move
  void read();         // the answers that are there
  void meddle();       // in the middle of a copy: take blocks back and write something else there
  void finish();       // no further moves: signal fences, so that only deadlines are left
  bool waits() const;  // an answer is due
  void check_blocks();

  void die(const char* why);
  // The daemon was killed: called before its memory goes.
  // `reads`: what it had answered by then.
  void daemon_killed(bool reads);

 private:
  struct Use {  // of a space
    int space = 0;
    Handle handle = 0, layout = 0;
    uint64_t generation = 0, part_bytes = 0, offset = 0;
    uint32_t part = 0;
    bool stale = false, attaching = false;
    int clears = 0;  // of its own, not answered
    Blocks blocks;
  };
  struct Item {
    uint64_t key = 0;
    uint32_t block = 0;
    uint64_t stamp = 0;     // put: its write; get: what was in the block before
    bool released = false;  // revoked or abandoned: the block is the engine's again
    bool held = false;      // get: under a lease that says it is in the host pool
  };
  struct Pending {
    RecordType type = RecordType::kNoop;
    uint64_t request = 0, sent_at = 0, deadline_ns = 0, sent_ns = 0;
    size_t use = 0;
    uint64_t generation = 0;  // of the use when it was sent; attach: known then
    uint32_t part = 0;
    std::vector<Item> items;  // put, get
    std::vector<uint64_t> keys;
    bool durable = false;
    uint32_t progress = kNoIndex;
    uint32_t fence = kNoIndex;
    uint64_t fence_value = 0;
    uint64_t lease = 0, held_until_ns = 0, ticket = 0;
    uint32_t lease_ms = 0;
    bool foul = false;  // whatever the answer says will do
    bool odd = false;   // must be refused
  };
  struct HeldLease {
    Handle handle = 0;
    size_t use = 0;
    uint64_t generation = 0, until_ns = 0, got_at = 0;
    std::vector<uint64_t> keys;  // in the host pool when it was given
  };

  // actor.cc
  void set_up();
  bool set_up_answered(const testing::Answer& answer);
  void send_set_up();
  void down();
  std::string name() const { return "e" + std::to_string(number_); }
  void violation(const std::string& text);
  PageName page(const Use& use, uint64_t key) const { return {use.space, key}; }
  void release_item(Pending& pending, Item& item);

  // actor_moves.cc
  void move();
  void send_lookup();
  void send_lookup_record(uint64_t request);
  void send_put();
  void send_get();
  void send_delete();
  void send_clear();
  void send_release();
  void send_cancel();
  void send_attach();
  void revoke_some();
  void signal_some(bool all);
  Pending start(RecordType type, size_t use);
  void keep(Pending&& pending, const char* what);
  bool take_blocks(Pending& pending, Use& use);
  template <typename Request>
  uint64_t send_transfer(RecordType type, Request request, Pending& pending, const Use& use);
  std::vector<uint64_t> some_keys(uint64_t most);

  // actor_oddities.cc
  void send_foul();
  void send_odd();
  void end_foully();
  void send_unregister();
  void unregister_answered(const Pending& pending, const testing::Answer& answer);
  void die_in_a_batch();

  // actor_answers.cc
  void answered(Pending& pending, const testing::Answer& answer);
  void put_answered(Pending& pending, const testing::Answer& answer);
  void get_answered(Pending& pending, const testing::Answer& answer);
  void lookup_answered(Pending& pending, const testing::Answer& answer);
  void check_ticket(const Pending& pending, const testing::Answer& answer);
  void check_prefix(const Pending& pending, const testing::Answer& answer);
  void delete_answered(const Pending& pending, const testing::Answer& answer);
  void attach_answered(const Pending& pending, const testing::Answer& answer);
  void clear_answered(const Pending& pending, const testing::Answer& answer);
  void put_item_answered(Pending& pending, uint32_t index, Code code);
  void get_item_answered(Pending& pending, uint32_t index, Code code);
  void check_missed(const Pending& pending, const Item& item);

  Shared& shared_;
  testing::SeededRandom& random_;
  const int number_;
  const ActorPlan plan_;
  std::unique_ptr<testing::Engine> engine_;
  size_t stage_ = 0;             // of the set-up; plan_.spaces * 2 + 1 = done
  uint64_t set_up_request_ = 0;  // 0 = the stage was not begun
  uint64_t cleared_before_ = 0;  // generation that was known when it was sent
  Handle region_ = 0;
  bool foul_ = false;  // did what ends a session
  bool unregistering_ = false;
  int deaf_moves_ = 0;  // left, in which it reads nothing
  std::vector<Use> uses_;
  std::list<Pending> pending_;
  std::vector<HeldLease> leases_;
  std::vector<uint64_t> open_lookup_;  // keys of a lookup whose last record is still to be sent
  Pending open_lookup_head_;
  uint32_t next_fence_ = 0, next_progress_ = 0;
  uint64_t last_fence_value_ = 0;
};

}  // namespace kvsidecar::sim
