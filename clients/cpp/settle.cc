// SPDX-License-Identifier: Apache-2.0
// Ends: deadlines, cancels, lost links. Claim words say what may be given up without the daemon's
// help; only a get that is being copied into shared memory has to be waited for.
#include <algorithm>

#include "clients/cpp/core.h"

namespace kvsidecar::clientlib {

void Core::tick(uint64_t now_ns) {
  if (current) take_answers(*current, now_ns);
  for (const std::shared_ptr<Link>& link : fading) take_answers(*link, now_ns);
  if (now_ns >= look_soonest_ns_) expire_due(now_ns);
  if (current) feed(*current, now_ns);
  for (const std::shared_ptr<Link>& link : fading) sweep(*link);
  std::erase_if(fading, [](const std::shared_ptr<Link>& old) { return old->records.empty(); });
}

Operation* Core::find(uint64_t id) {
  const auto found = ops_.find(id);
  return found == ops_.end() ? nullptr : found->second.get();
}

void Core::look_at(Operation& op, uint64_t when_ns) {
  op.look_at_ns = when_ns;
  look_soonest_ns_ = std::min(look_soonest_ns_, when_ns);
}

// Most operations finish long before their deadline: looking at all of them once one has passed
// costs less than keeping them in order.
void Core::expire_due(uint64_t now_ns) {
  look_soonest_ns_ = UINT64_MAX;
  for (const auto& [id, op] : ops_) {
    if (op->finished) continue;
    if (op->look_at_ns <= now_ns)
      expire(*op, now_ns);
    else
      look_soonest_ns_ = std::min(look_soonest_ns_, op->look_at_ns);
  }
}

// Past its deadline (or cancelled, or its link lost). What can't be given up is looked at again.
void Core::expire(Operation& op, uint64_t now_ns) {
  Code code = op.cancelled ? Code::kRevoked : Code::kTimeout;
  if (op.link->lost) code = Code::kUnavailable;
  const bool grace_over = op.link->lost || now_ns >= op.deadline_ns + kAnswerGraceNs;
  withdraw(op, code, grace_over);
  finish_if_answered(op, code, now_ns);
  if (op.finished) return;
  look_at(op, now_ns + kOverdueCheckNs);
  const bool past = now_ns >= op.deadline_ns && !op.cancelled;
  if (past && grace_over && !op.overdue_said && op.type == RecordType::kGet) {
    op.overdue_said = true;
    say(op, KVS_EVENT_OVERDUE);
  }
}

// settled_too: also items that the daemon has settled already but not answered.
void Core::withdraw(Operation& op, Code code, bool settled_too) {
  if (!op.has_claims()) {
    for (uint8_t& item : op.items)
      if (op.has_items() && item == kUnanswered) item = static_cast<uint8_t>(code);
    op.unanswered = 0;
    return;
  }
  const Link& link = *op.link;
  for (const uint64_t request : op.requests) {
    const auto found = link.records.find(request);
    if (found == link.records.end()) continue;
    const Record& record = found->second;
    for (uint32_t i = 0; i < record.count; ++i)
      withdraw_item(op, link, record, i, code, settled_too);
  }
  for (uint32_t item = op.next; item < op.count; ++item) settle(op, item, code);
}

// True when the item's memory is the engine's.
bool Core::withdraw_item(Operation& op, const Link& link, const Record& record, uint32_t i,
                         Code code, bool settled_too) {
  const uint32_t item = record.first + i;
  if (op.items[item] != kUnanswered) return true;
  if (link.dead) {
    settle(op, item, code);
    return true;
  }
  const Claim claim = link.claim(record, i);
  if (claim.move(ClaimState::kQueued, ClaimState::kRevoked)) {
    settle(op, item, code);
    return true;
  }
  const bool put = op.type == RecordType::kPut;
  if (put && claim.move(ClaimState::kCopying, ClaimState::kAbandoned)) {
    settle(op, item, code == Code::kUnavailable ? code : Code::kAbandoned);
    return true;
  }
  const ClaimState state = claim.state();
  if (state == ClaimState::kCopying && !put) {
    // Staging is being written, not the engine's memory: the answer will be ignored.
    if (op.staged) settle(op, item, code);
    return op.staged;
  }
  if (settled_too || state == ClaimState::kRevoked) settle(op, item, code);
  return true;
}

void Core::settle(Operation& op, uint32_t item, Code code) {
  if (op.items[item] != kUnanswered) return;
  op.items[item] = static_cast<uint8_t>(code);
  --op.unanswered;
}

void Core::finish_if_answered(Operation& op, Code code, uint64_t now_ns) {
  if (!op.finished && op.unanswered == 0) finish(op, code, now_ns);
}

void Core::finish(Operation& op, Code code, uint64_t now_ns) {
  op.finished = true;
  op.finished_ns = now_ns;
  if (op.status == Code::kOk) op.status = code;
  if (op.status != Code::kOk && op.text.empty())
    op.text = op.status == Code::kTimeout       ? "the deadline passed"
              : op.status == Code::kRevoked     ? "cancelled"
              : op.status == Code::kUnavailable ? "the connection to the daemon has ended"
                                                : std::string(code_name(op.status));
  if (op.status == Code::kOk && op.type == RecordType::kClear && op.namespace_id != 0) {
    if (const auto space = objects.namespaces.find(op.namespace_id);
        space != objects.namespaces.end()) {
      space->second.generation = op.value;
      space->second.stale = false;
    }
  }
  Link& link = *op.link;
  if (link.text_op == op.id) {
    link.text_op = 0;
    while (!link.text_queue.empty() && link.text_op == 0) {
      Operation* next = find(link.text_queue.front());
      link.text_queue.pop_front();
      if (next == nullptr || next->finished || link.lost) continue;
      link.text_op = next->id;
      enqueue(*next, false);
    }
  }
  say(op, KVS_EVENT_FINISHED);
}

void Core::say(Operation& op, uint32_t kind) {
  ++changes;
  if (op.internal) return;
  forget_event(op);
  op.event = events.insert(events.end(), kvs_event{op.id, kind, 0});
  op.has_event = true;
}

void Core::forget_event(Operation& op) {
  if (op.has_event) events.erase(op.event);
  op.has_event = false;
}

void Core::cancel(Operation& op, uint64_t now_ns, uint8_t* free_items) {
  if (!op.finished) {
    op.cancelled = true;
    withdraw(op, Code::kRevoked, false);
    for (const uint64_t request : op.requests) {
      if (op.link->lost) break;
      encode(CancelRequest{request}, encoded_);
      send_aside(*op.link, RecordType::kCancel, now_ns);
    }
    finish_if_answered(op, Code::kRevoked, now_ns);
    if (!op.finished) {
      op.deadline_ns = std::min(op.deadline_ns, now_ns);
      look_at(op, now_ns + kAnswerGraceNs);
    }
  }
  if (free_items == nullptr) return;
  for (uint32_t item = 0; item < op.items.size(); ++item)
    free_items[item] = op.finished || !op.has_claims() || revoke(op, item) ? 1 : 0;
}

bool Core::revoke(Operation& op, uint32_t item) {
  if (op.finished || op.items[item] != kUnanswered) return true;
  if (item >= op.next) {
    settle(op, item, Code::kRevoked);
    return true;
  }
  for (const uint64_t request : op.requests) {
    const auto found = op.link->records.find(request);
    if (found == op.link->records.end()) continue;
    const Record& record = found->second;
    if (item < record.first || item >= record.first + record.count) continue;
    return withdraw_item(op, *op.link, record, item - record.first, Code::kRevoked, false);
  }
  return false;
}

void Core::finish_revoked(Operation& op, uint64_t now_ns) {
  finish_if_answered(op, Code::kOk, now_ns);
}

bool Core::erase(Operation& op, uint64_t now_ns) {
  if (!op.finished) cancel(op, now_ns, nullptr);
  if (!op.finished) return false;
  forget_event(op);
  if (op.in_half && !op.link->lost) {
    op.freed = true;
  } else {
    ops_.erase(op.id);
  }
  return true;
}

void Core::lose(std::shared_ptr<Link> link, bool dead, uint64_t now_ns) {
  take_answers(*link, now_ns);
  link->lost = true;
  link->dead = link->dead || dead;
  link->ready = false;
  link->queue.clear();
  link->text_queue.clear();
  std::vector<uint64_t> freed;
  for (auto& [id, op] : ops_) {
    if (op->link != link) continue;
    op->in_half = false;
    if (op->freed) freed.push_back(id);
    if (!op->finished) expire(*op, now_ns);
  }
  for (const uint64_t id : freed) ops_.erase(id);
  link->connection.socket.reset();
  if (current == link) {
    current.reset();
    objects.forget_handles();
    fading.push_back(link);
  }
  if (link->dead)
    for (auto& [request, record] : link->records) unstage(record);
  if (link->dead) link->records.clear();
  sweep(*link);
  std::erase_if(fading, [&](const std::shared_ptr<Link>& old) { return old->records.empty(); });
}

bool Core::uses_region(uint64_t region) const {
  return std::any_of(ops_.begin(), ops_.end(), [&](const auto& entry) {
    const Operation& op = *entry.second;
    if (op.finished || !op.has_claims()) return false;
    if (op.staged)
      return std::find(op.staged_regions.begin(), op.staged_regions.end(), region) !=
             op.staged_regions.end();
    return op.link->lost;
  });
}

bool Core::give_up_all(uint64_t now_ns) {
  bool all = true;
  for (auto& [id, op] : ops_) {
    if (!op->finished) cancel(*op, now_ns, nullptr);
    if (!op->finished && op->type == RecordType::kGet && !op->staged) all = false;
  }
  return all;
}

}  // namespace kvsidecar::clientlib
