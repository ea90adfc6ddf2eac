// SPDX-License-Identifier: Apache-2.0
// Completions: from cells of the ring to what an operation answers, and what becomes of answers
// that nobody waits for any more.
#include <algorithm>

#include "clients/cpp/core.h"

namespace kvsidecar::clientlib {
namespace {

Code known(std::byte status) {
  return static_cast<uint8_t>(status) < kCodesMax ? static_cast<Code>(status) : Code::kInternal;
}

// What has become of a claim whose request was answered. A completion is only a message: while the
// claim says COPYING, the daemon touches the memory, whatever the completion says.
ClaimState end_of(const Claim& claim, RecordType type) {
  for (int looks = 0; looks < 3; ++looks) {
    const ClaimState state = claim.state();
    ClaimState end = state;
    if (state == ClaimState::kQueued) end = ClaimState::kRevoked;
    if (state == ClaimState::kCopying && type == RecordType::kPut) end = ClaimState::kAbandoned;
    if (end == state || claim.move(state, end)) return end;
  }
  return ClaimState::kCopying;
}

}  // namespace

// As many as the ring holds: a daemon that goes on publishing keeps nobody here.
void Core::take_answers(Link& link, uint64_t now_ns) {
  Bytes payload;
  for (uint32_t left = link.memory.geometry.completion_cells; left > 0; --left) {
    const CompletionHead* head = link.consumer.peek(payload);
    if (head == nullptr) return;
    take_answer(link, *head, payload, now_ns);
    link.consumer.consume();
  }
}

void Core::take_answer(Link& link, const CompletionHead& head, Bytes payload, uint64_t now_ns) {
  const auto found = link.records.find(head.request);
  if (found == link.records.end()) return;
  Record& record = found->second;
  const bool last = head.cell + 1 >= head.cells;
  Operation* op = record.op != 0 ? find(record.op) : nullptr;
  if (op != nullptr && op->finished) op = nullptr;
  if (op != nullptr) {
    if (head.done_ns > head.received_ns)
      op->served_ns = std::max(op->served_ns, head.done_ns - head.received_ns);
    const Code code = known(std::byte{head.status});
    if (code != Code::kOk && op->status == Code::kOk) {
      op->status = code;
      op->text.assign(reinterpret_cast<const char*>(payload.data()), payload.size());
    }
    if (op->has_items()) {
      answer_items(*op, link, record, head, payload);
    } else if (op->type == RecordType::kLookup) {
      answer_lookup(*op, record, head, payload);
    } else if (op->type == RecordType::kStat || op->type == RecordType::kWhy) {
      answer_text(link, *op, head, payload);
    } else {
      op->handle = head.handle;
      op->value = head.value;
      op->unanswered = 0;
    }
    finish_if_answered(*op, op->status, now_ns);
  }
  if (!last || is_copied(link, record)) return;
  Record done = std::move(record);
  link.records.erase(found);
  link.credits += done.credits;
  release_record(link, done);
  if (op != nullptr) {
    op->requests.erase(std::remove(op->requests.begin(), op->requests.end(), done.request),
                       op->requests.end());
  } else {
    answer_orphan(link, done, head, now_ns);
  }
}

void Core::answer_items(Operation& op, const Link& link, const Record& record,
                        const CompletionHead& head, Bytes payload) {
  const Code whole = known(std::byte{head.status});
  for (uint32_t i = 0; i < record.count; ++i) {
    Code code = whole;
    if (whole == Code::kOk) code = i < payload.size() ? known(payload[i]) : Code::kInternal;
    const uint32_t item = record.first + i;
    if (op.items[item] != kUnanswered) continue;
    if (op.has_claims()) {
      const ClaimState state = end_of(link.claim(record, i), op.type);
      if (state == ClaimState::kCopying) continue;
      if (state == ClaimState::kAbandoned && is_success(code)) code = Code::kAbandoned;
      if (op.type == RecordType::kGet && is_success(code) && state != ClaimState::kDone)
        code = Code::kInternal;
    }
    if (op.staged && op.type == RecordType::kGet && code == Code::kOk)
      scatter(staging_base + record.slots[i].offset, op.pieces_of(item));
    settle(op, item, code);
  }
}

// Whether the daemon may still write what the record has lent.
bool Core::is_copied(const Link& link, const Record& record) {
  for (uint32_t i = 0; i < record.claims.size(); ++i)
    if (end_of(link.claim(record, i), record.type) == ClaimState::kCopying) return true;
  return false;
}

// Of a lost link only what is still being copied is kept, and what an operation waits for.
void Core::sweep(Link& link) {
  for (auto it = link.records.begin(); it != link.records.end();) {
    const Operation* op = find(it->second.op);
    if ((op != nullptr && !op->finished) || is_copied(link, it->second)) {
      ++it;
      continue;
    }
    release_record(link, it->second);
    it = link.records.erase(it);
  }
}

void Core::answer_lookup(Operation& op, Record& record, const CompletionHead& head, Bytes payload) {
  if (static_cast<Code>(head.status) != Code::kOk) {
    op.items.clear();
    op.restorable.clear();
    op.unanswered = head.cell + 1 >= head.cells ? 0 : 1;
    return;
  }
  if (op.items.empty()) {
    op.items.assign(op.count, static_cast<uint8_t>(Place::kMiss));
    op.restorable.assign((size_t{op.count} + 7) / 8, 0);
  }
  // record.first: keys that the cells before this one have answered.
  const uint32_t offset = record.first;
  const uint32_t keys = std::min(head.items, op.count - offset);
  const size_t bitmap_bytes = (size_t{head.items} + 7) / 8;
  for (uint32_t i = 0; i < keys && bitmap_bytes + i < payload.size(); ++i) {
    op.items[offset + i] = static_cast<uint8_t>(payload[bitmap_bytes + i]);
    if ((static_cast<uint8_t>(payload[i / 8]) >> (i % 8) & 1) == 0) continue;
    const uint32_t bit = offset + i;
    op.restorable[bit / 8] = static_cast<uint8_t>(op.restorable[bit / 8] | (1u << (bit % 8)));
  }
  record.first = offset + keys;
  op.longest = std::min<uint64_t>(head.value, op.count);
  if (head.handle != 0) op.handle = head.handle;
  if ((head.flags & kCompletionLeaseCapped) != 0) op.flags |= KVS_RESULT_LEASE_CAPPED;
  if (head.cell + 1 >= head.cells) op.unanswered = 0;
}

// A text comes in pieces cut from one snapshot; the next is asked for until all are here.
void Core::answer_text(Link& link, Operation& op, const CompletionHead& head, Bytes payload) {
  if (static_cast<Code>(head.status) != Code::kOk) {
    op.unanswered = 0;
    return;
  }
  op.text.append(reinterpret_cast<const char*>(payload.data()), payload.size());
  op.next = static_cast<uint32_t>(op.text.size());
  if (op.next >= head.value || payload.empty()) {
    op.unanswered = 0;
    return;
  }
  if (!op.queued && !link.lost) enqueue(op, true);
}

// What an answer that came too late has given is given back.
void Core::answer_orphan(Link& link, const Record& record, const CompletionHead& head,
                         uint64_t now_ns) {
  if (link.lost || static_cast<Code>(head.status) != Code::kOk || head.handle == 0) return;
  if (record.type == RecordType::kLookup && !record.group_lease) {
    encode(ReleaseRequest{head.handle}, encoded_);
    send_aside(link, RecordType::kRelease, now_ns);
  } else if (record.type == RecordType::kRegisterRegion ||
             record.type == RecordType::kRegisterLayout) {
    encode(UnregisterRequest{head.handle}, encoded_);
    send_aside(link, RecordType::kUnregister, now_ns);
  }
}

void Core::release_record(Link& link, Record& record) {
  for (const uint32_t claim : record.claims)
    link.memory.claim(claim)->store(0, std::memory_order_release);
  link.claims.give_back(record.claims);
  record.claims.clear();
  if (record.progress != kNoIndex) link.progress_words.give_back(std::span(&record.progress, 1));
  record.progress = kNoIndex;
  unstage(record);
}

void Core::unstage(Record& record) {
  for (const StagingSlot& slot : record.slots) staging.give_back(slot);
  record.slots.clear();
}

uint64_t Core::progress(const Operation& op) {
  if (op.finished) {
    const bool all = op.type == RecordType::kGet &&
                     std::all_of(op.items.begin(), op.items.end(), [](uint8_t item) {
                       return item == static_cast<uint8_t>(Code::kOk);
                     });
    return all ? UINT64_MAX : 0;
  }
  if (!op.layered || op.next < op.count) return 0;
  uint64_t least = UINT64_MAX;
  for (const uint64_t request : op.requests) {
    const auto found = op.link->records.find(request);
    if (found == op.link->records.end()) continue;
    Record& record = found->second;
    if (record.progress == kNoIndex) return 0;
    const uint64_t word =
        op.link->memory.info().progress[record.progress].load(std::memory_order_acquire);
    // The word may still show an earlier get's end: it counts once it was seen to move.
    if (word != record.progress_before || word == 0) record.progress_fresh = true;
    least = std::min(least, record.progress_fresh ? word : 0);
  }
  return least == UINT64_MAX ? 0 : least;
}

}  // namespace kvsidecar::clientlib
