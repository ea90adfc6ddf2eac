// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tests/sim/actor.h"

namespace kvsidecar::sim {
namespace {

using testing::Answer;

std::string text_of(Code code) { return std::string(code_name(code)); }

}  // namespace

void Actor::answered(Pending& pending, const Answer& answer) {
  if (pending.foul) return;
  if (pending.odd) {
    if (answer.status() == Code::kOk) violation("an odd request was served");
    return;
  }
  if (answer.status() == Code::kStaleNamespace && pending.type != RecordType::kLookup)
    uses_[pending.use].stale = true;
  if (answer.status() == Code::kStaleNamespace && pending.type == RecordType::kLookup)
    for (Use& use : uses_)
      use.stale = use.stale || use.generation < shared_.model.generation(use.space);
  switch (pending.type) {
    case RecordType::kPut:
      return put_answered(pending, answer);
    case RecordType::kGet:
      return get_answered(pending, answer);
    case RecordType::kLookup:
      return lookup_answered(pending, answer);
    case RecordType::kDelete:
      return delete_answered(pending, answer);
    case RecordType::kClear:
      return clear_answered(pending, answer);
    case RecordType::kUnregister:
      return unregister_answered(pending, answer);
    case RecordType::kAttach:
      return attach_answered(pending, answer);
    default:
      return;
  }
}

void Actor::put_answered(Pending& pending, const Answer& answer) {
  for (uint32_t i = 0; i < pending.items.size(); ++i) {
    const bool whole = answer.items.empty();
    put_item_answered(pending, i, whole ? answer.status() : answer.items.at(i));
  }
}

void Actor::put_item_answered(Pending& pending, uint32_t index, Code code) {
  Item& item = pending.items[index];
  Use& use = uses_[pending.use];
  const uint64_t now = shared_.trace.now();
  const std::string what = "put " + std::to_string(pending.request) + "/" + std::to_string(index) +
                           " of key " + std::to_string(item.key) + " is " + text_of(code);
  const ClaimState state = engine_->claim(pending.request, index).state();
  const bool there = code == Code::kOk || code == Code::kExists || code == Code::kNotStored;
  if (there && pending.generation == use.generation && use.clears == 0)
    shared_.model.page_complete(
        page(use, item.key), use.generation,
        {code != Code::kExists && state == ClaimState::kDone,
         pending.durable && code != Code::kNotStored, pending.sent_at, now});
  if (item.released) {
    if (state == ClaimState::kDone) violation(what + ", its claim DONE, though it was taken back");
    return;
  }
  const bool taken = code == Code::kOk || code == Code::kOkPart || code == Code::kNotStored;
  const bool counted = taken && state == ClaimState::kDone;
  if (code == Code::kOk && !counted) violation(what + " without a copy");
  if (state == ClaimState::kCopying) violation(what + " while it is being copied");
  if (code == Code::kMemoryFault || code == Code::kCorrupt || code == Code::kMiss) violation(what);
  const std::string wrong = shared_.model.end_write(item.stamp, counted, use.generation, now);
  if (!wrong.empty()) violation(wrong);
  if (!use.blocks.holds_its_own(item.block)) violation(what + ", and its block was changed");
  use.blocks.give(item.block);
}

void Actor::get_answered(Pending& pending, const Answer& answer) {
  const bool whole = answer.items.empty();
  for (uint32_t i = 0; i < pending.items.size(); ++i)
    get_item_answered(pending, i, whole ? answer.status() : answer.items.at(i));
  const bool all = !whole && std::all_of(answer.items.begin(), answer.items.end(),
                                         [](Code code) { return code == Code::kOk; });
  if (all && pending.progress != kNoIndex &&
      engine_->session_memory().info().progress[pending.progress].load() != plan_.runs)
    violation("a layered get ended without having counted its layers");
}

void Actor::get_item_answered(Pending& pending, uint32_t index, Code code) {
  Item& item = pending.items[index];
  Use& use = uses_[pending.use];
  const std::string what = "get " + std::to_string(pending.request) + "/" + std::to_string(index) +
                           " of key " + std::to_string(item.key) + " is " + text_of(code);
  const ClaimState state = engine_->claim(pending.request, index).state();
  if (item.released) {
    if (code == Code::kOk) violation(what + " though it was revoked");
    return;
  }
  const uint64_t found = stamped(use.blocks.bytes(item.block));
  if (code == Code::kOk) {
    const Generations generations{pending.generation, use.generation};
    std::string wrong;
    if (state != ClaimState::kDone)
      wrong = what + " and its claim is not DONE";
    else if (found == 0)
      wrong = what + " with bytes that are no page's";
    else
      wrong = shared_.model.check_got(page(use, item.key), pending.part, generations,
                                      pending.sent_at, found);
    if (!wrong.empty()) violation(wrong + " (request " + std::to_string(pending.request) + ")");
    use.blocks.written(item.block, found);
  } else if (state == ClaimState::kFailed) {
    use.blocks.written(item.block, 0);
  } else {
    if (found != item.stamp) violation(what + " and its block was changed");
    if (state == ClaimState::kCopying || state == ClaimState::kDone)
      violation(what + " and its claim says COPYING or DONE");
  }
  if (code == Code::kMiss) check_missed(pending, item);
  use.blocks.give(item.block);
}

// A miss must be nobody's promise.
void Actor::check_missed(const Pending& pending, const Item& item) {
  const Use& use = uses_[pending.use];
  const PageName name = page(use, item.key);
  const std::string key = "key " + std::to_string(item.key) + " of space " +
                          std::to_string(use.space) + " (request " +
                          std::to_string(pending.request) + ")";
  const Excuses& excuses = shared_.excuses;
  if (pending.generation != use.generation || use.clears > 0) return;
  if (item.held && shared_.clock.now_ns() < pending.held_until_ns && !excuses.corrupt &&
      !shared_.model.deleted_since(name, pending.sent_at))
    violation(key + " was leased in the host pool and is a miss");
  if (!excuses.for_a_page() &&
      shared_.model.must_be_found(name, pending.generation, pending.sent_at,
                                  shared_.store_counts(pending.sent_at)))
    violation(key + " was put, never evicted or deleted, and is a miss");
}

void Actor::lookup_answered(Pending& pending, const Answer& answer) {
  if (pending.ticket != 0) check_ticket(pending, answer);
  if (answer.status() != Code::kOk) {
    const bool expected =
        answer.status() == Code::kStaleNamespace ||
        // Its second record came after its deadline.
        (answer.status() == Code::kTimeout && pending.keys.size() > 1) ||
        (pending.ticket != 0 &&
         (answer.status() == Code::kExpired ||
          // The other rank asked before somebody cleared: its request was another one.
          (answer.status() == Code::kInvalid && shared_.model.generation(uses_[0].space) > 1)));
    if (!expected) violation("lookup refused: " + answer.text);
    return;
  }
  if (answer.places.size() != pending.keys.size())
    return violation("a lookup of " + std::to_string(pending.keys.size()) + " keys answers " +
                     std::to_string(answer.places.size()));
  check_prefix(pending, answer);
  const Use& use = uses_[0];
  const Excuses& excuses = shared_.excuses;
  const bool same = pending.generation == use.generation && use.clears == 0 && pending.ticket == 0;
  for (size_t i = 0; same && i < pending.keys.size(); ++i) {
    if (answer.places[i] != static_cast<uint8_t>(Place::kMiss)) continue;
    const PageName name = page(use, pending.keys[i]);
    const bool kept = !excuses.for_a_page();
    if (kept && shared_.model.must_be_found(name, use.generation, pending.sent_at,
                                            shared_.store_counts(pending.sent_at)))
      violation("key " + std::to_string(name.key) + " of space " + std::to_string(name.space) +
                " was put, never evicted or deleted, and is not found");
    if (shared_.store_known(pending.sent_at) && !excuses.trimmed && !excuses.corrupt &&
        shared_.model.must_be_stored(name, use.generation, pending.sent_at))
      violation("key " + std::to_string(name.key) + " of space " + std::to_string(name.space) +
                " was durable and is not found");
  }
  if (answer.head.handle == 0) return;
  HeldLease lease;
  lease.handle = answer.head.handle;
  lease.generation = pending.generation;
  lease.got_at = pending.sent_at;
  lease.until_ns = pending.sent_ns + std::min(uint64_t{pending.lease_ms} * 1'000'000,
                                              shared_.plan.node.limits.lease_max_ns);
  for (size_t i = 0; i < answer.head.value; ++i)
    if (answer.places[i] == static_cast<uint8_t>(Place::kHost))
      lease.keys.push_back(pending.keys[i]);
  leases_.push_back(std::move(lease));
  if (leases_.size() > 8) leases_.erase(leases_.begin());
}

// With one pool the longest prefix is the leading run; with more it can only be shorter.
void Actor::check_prefix(const Pending& pending, const Answer& answer) {
  uint64_t run = 0, longest = 0;
  while (run < answer.places.size() && answer.places[run] != static_cast<uint8_t>(Place::kMiss))
    ++run;
  for (size_t i = 0; i < answer.restorable.size(); ++i)
    if (answer.restorable[i] != 0) longest = i + 1;
  if (longest != answer.head.value) violation("the longest prefix is not the longest of the set");
  if (longest > run || (uses_.size() == 1 && longest != run))
    violation("lookup " + std::to_string(pending.request) + " restores " + std::to_string(longest) +
              " pages, " + std::to_string(run) + " are there");
}

// Every rank gets what the first one got, or nothing.
void Actor::check_ticket(const Pending& pending, const Answer& answer) {
  const auto ticket =
      std::find_if(shared_.tickets.begin(), shared_.tickets.end(),
                   [&](const OpenTicket& open) { return open.number == pending.ticket; });
  if (ticket == shared_.tickets.end()) return;
  if (answer.status() == Code::kOk) {
    std::string text = std::to_string(answer.head.value) + "/" + std::to_string(answer.head.handle);
    for (const uint8_t place : answer.places) text += "," + std::to_string(place);
    if (ticket->answer.empty()) ticket->answer = text;
    if (ticket->answer != text)
      violation("ticket " + std::to_string(pending.ticket) + ": one rank got " + ticket->answer +
                ", another " + text);
  }
  if (++ticket->answers == 2) shared_.tickets.erase(ticket);
}

void Actor::delete_answered(const Pending& pending, const Answer& answer) {
  const Use& use = uses_[pending.use];
  for (size_t i = 0; i < pending.keys.size(); ++i) {
    const bool deleted = i < answer.items.size() && answer.items[i] == Code::kOk;
    shared_.model.delete_answered(page(use, pending.keys[i]), {pending.generation, use.generation},
                                  deleted, pending.sent_at, shared_.trace.now());
  }
}

void Actor::attach_answered(const Pending& pending, const Answer& answer) {
  Use& use = uses_[pending.use];
  use.attaching = false;
  if (answer.status() != Code::kOk) return violation("attach refused: " + answer.text);
  if (answer.head.value < pending.generation)
    violation("attached at a generation that was cleared");
  use.handle = answer.head.handle;
  use.generation = answer.head.value;
  use.stale = false;
  shared_.model.generation_seen(use.space, use.generation);
}

void Actor::clear_answered(const Pending& pending, const Answer& answer) {
  Use& use = uses_[pending.use];
  --use.clears;
  if (answer.status() != Code::kOk) return;
  if (answer.head.value <= pending.generation) violation("a clear did not raise the generation");
  use.generation = std::max(use.generation, answer.head.value);
  shared_.model.generation_seen(use.space, answer.head.value);
}

}  // namespace kvsidecar::sim
