// SPDX-License-Identifier: Apache-2.0
// Sending: from an operation's lists to records on the ring, as far as credits, cells, arena, claim
// words and staging go.
#include <algorithm>

#include "clients/cpp/core.h"

namespace kvsidecar::clientlib {

Operation& Core::begin(std::unique_ptr<Operation> owned, uint64_t now_ns) {
  Operation& op = *owned;
  op.id = ++last_op_;
  op.submitted_ns = now_ns;
  if (op.has_items()) {
    op.items.assign(op.count, kUnanswered);
    op.unanswered = op.count;
  } else {
    op.unanswered = 1;
  }
  ops_.emplace(op.id, std::move(owned));
  look_at(op, op.deadline_ns);
  Link& link = *op.link;
  if ((op.type == RecordType::kStat || op.type == RecordType::kWhy) && link.text_op != 0) {
    link.text_queue.push_back(op.id);
    return op;
  }
  if (op.type == RecordType::kStat || op.type == RecordType::kWhy) link.text_op = op.id;
  enqueue(op, op.internal);
  feed(link, now_ns);
  return op;
}

void Core::enqueue(Operation& op, bool first) {
  std::deque<uint64_t>& queue = op.link->queue;
  op.queued = true;
  if (!first || queue.empty()) {
    queue.push_back(op.id);
    return;
  }
  queue.insert(queue.begin() + (op.link->half_sent != 0 ? 1 : 0), op.id);
}

bool Core::feeding() const { return (current && !current->queue.empty()) || !parked_.empty(); }

void Core::feed(Link& link, uint64_t now_ns) {
  if (link.lost) return;
  for (size_t i = parked_.size(); i > 0; --i) {
    const uint64_t id = parked_.front();
    parked_.pop_front();
    Operation* op = find(id);
    if (op == nullptr || op->finished || op->link.get() != &link) continue;
    Sent sent = send_next(link, *op, now_ns);
    while (sent == Sent::kMore) sent = send_next(link, *op, now_ns);
    if (sent != Sent::kAll) parked_.push_back(id);
  }
  while (!link.queue.empty()) {
    Operation* op = find(link.queue.front());
    if (op == nullptr || (op->finished && !op->in_half)) {
      link.queue.pop_front();
      if (op != nullptr) op->queued = false;
      continue;
    }
    const Sent sent = send_next(link, *op, now_ns);
    if (sent == Sent::kNoRoom) break;
    if (sent == Sent::kMore) continue;
    link.queue.pop_front();
    op->queued = false;
    if (sent == Sent::kParked) parked_.push_back(op->id);
    if (op->freed) ops_.erase(op->id);
  }
  link.publish();
}

Core::Sent Core::send_next(Link& link, Operation& op, uint64_t now_ns) {
  switch (op.type) {
    case RecordType::kLookup:
      return send_lookup(link, op);
    case RecordType::kPut:
    case RecordType::kGet:
      return send_items(link, op, now_ns);
    case RecordType::kDelete:
      return send_delete(link, op);
    case RecordType::kStat:
    case RecordType::kWhy:
      return send_text(link, op);
    default:
      return send_ready(link, op);
  }
}

Core::Sent Core::send_ready(Link& link, Operation& op) {
  Record record;
  record.request = link.last_request + 1;
  record.type = op.type;
  record.op = op.id;
  if (!link.push(record, op.deadline_ns, op.ready, op.internal ? 0 : kCreditsKept))
    return Sent::kNoRoom;
  link.last_request = record.request;
  op.requests.push_back(record.request);
  link.records.emplace(record.request, std::move(record));
  return Sent::kAll;
}

Core::Sent Core::send_lookup(Link& link, Operation& op) {
  const uint32_t each = keys_that_fit(op.key_bytes, 0, op.count);
  const uint32_t records = (op.count + each - 1) / each;
  if (op.next == 0) {
    // All its answers come together: the credits must be there before its first record.
    if (link.credits < records + kCreditsKept) return Sent::kNoRoom;
    op.lookup_request = link.last_request + 1;
  }
  const uint32_t count = std::min(each, op.count - op.next);
  LookupRequest request;
  request.keys = op.keys_of(op.next, count);
  request.offset = op.next;
  request.total = op.count;
  request.pools = op.pools;
  request.ticket = op.ticket;
  request.lease_ms = op.lease_ms;
  request.prefetch = op.prefetch;
  encode(request, encoded_);
  Record record;
  record.request = op.lookup_request;
  record.type = op.type;
  record.op = op.id;
  record.credits = records;
  record.group_lease = op.ticket != 0;
  if (!link.push(record, op.deadline_ns, encoded_, 0)) return Sent::kNoRoom;
  if (op.next == 0) {
    link.last_request = record.request;
    op.requests.push_back(record.request);
    link.records.emplace(record.request, std::move(record));
  }
  op.next += count;
  op.in_half = op.next < op.count;
  link.half_sent = op.in_half ? op.lookup_request : 0;
  return op.in_half ? Sent::kMore : Sent::kAll;
}

Core::Sent Core::send_delete(Link& link, Operation& op) {
  const uint32_t count = keys_that_fit(op.key_bytes, op.next, op.count);
  encode(DeleteRequest{op.namespace_handle, op.keys_of(op.next, count)}, encoded_);
  Record record;
  record.request = link.last_request + 1;
  record.type = op.type;
  record.op = op.id;
  record.first = op.next;
  record.count = count;
  if (!link.push(record, op.deadline_ns, encoded_, kCreditsKept)) return Sent::kNoRoom;
  link.last_request = record.request;
  op.requests.push_back(record.request);
  link.records.emplace(record.request, std::move(record));
  op.next += count;
  return op.next < op.count ? Sent::kMore : Sent::kAll;
}

Core::Sent Core::send_text(Link& link, Operation& op) {
  if (op.type == RecordType::kStat) {
    encode(StatRequest{op.what, op.next}, encoded_);
  } else {
    encode(WhyRequest{op.target_id, op.keys, op.next}, encoded_);
  }
  Record record;
  record.request = link.last_request + 1;
  record.type = op.type;
  record.op = op.id;
  if (!link.push(record, op.deadline_ns, encoded_, kCreditsKept)) return Sent::kNoRoom;
  link.last_request = record.request;
  op.requests.push_back(record.request);
  link.records.emplace(record.request, std::move(record));
  return Sent::kAll;
}

Core::Sent Core::send_items(Link& link, Operation& op, uint64_t now_ns) {
  if (op.staged && !fence_reached(op)) return Sent::kParked;
  if (op.deadline_ns <= now_ns) return Sent::kNoRoom;  // expire() takes it from here
  const ItemCosts costs{op.key_bytes, op.blocks.empty(), op.run_items, op.description_ends};
  Record record;
  record.request = link.last_request + 1;
  record.type = op.type;
  record.op = op.id;
  record.first = op.next;
  record.count = std::min(items_that_fit(costs, op.next, op.count), link.claims.free());
  if (record.count == 0 || link.credits <= kCreditsKept) return Sent::kNoRoom;
  if (op.staged && !stage(op, record)) return Sent::kParked;
  KV_CHECK(link.claims.take(record.count, record.claims));
  for (uint32_t i = 0; i < record.count; ++i) {
    const bool given_up = op.items[record.first + i] != kUnanswered;
    const ClaimState state = given_up ? ClaimState::kRevoked : ClaimState::kQueued;
    link.memory.claim(record.claims[i])
        ->store(claim_value(record.request, static_cast<uint16_t>(i), state),
                std::memory_order_release);
  }
  std::vector<uint32_t> word;
  if (op.layered && !op.blocks.empty() && link.progress_words.take(1, word)) {
    record.progress = word[0];
    record.progress_before = link.memory.info().progress[word[0]].load(std::memory_order_acquire);
  }
  encode_items(op, record);
  if (!link.push(record, op.deadline_ns, encoded_, kCreditsKept)) {
    release_record(link, record);
    return Sent::kNoRoom;
  }
  link.last_request = record.request;
  op.requests.push_back(record.request);
  op.next += record.count;
  link.records.emplace(record.request, std::move(record));
  return op.next < op.count ? Sent::kMore : Sent::kAll;
}

// Takes staging for as many of the record's items as there is room for, and fills it for a put.
bool Core::stage(Operation& op, Record& record) {
  for (uint32_t i = 0; i < record.count; ++i) {
    const uint32_t item = record.first + i;
    const std::optional<StagingSlot> slot = staging.take(op.staged_bytes(item));
    if (!slot) break;
    record.slots.push_back(*slot);
    const bool given_up = op.items[item] != kUnanswered;
    if (op.type == RecordType::kPut && !given_up)
      gather(op.pieces_of(item), staging_base + slot->offset);
  }
  record.count = static_cast<uint32_t>(record.slots.size());
  return record.count > 0;
}

void Core::encode_items(Operation& op, const Record& record) {
  std::vector<RunItem> run_items;
  std::vector<Run> staged_runs;
  Items items;
  if (!op.blocks.empty()) {
    for (uint32_t i = 0; i < record.count; ++i)
      op.blocks[record.first + i].claim = record.claims[i];
    items.blocks = std::span(op.blocks).subspan(record.first, record.count);
  } else if (op.staged) {
    const Handle region = objects.regions[staging_region].handle;
    for (uint32_t i = 0; i < record.count; ++i) {
      run_items.push_back({i, 1, record.claims[i], 0});
      staged_runs.push_back({region, record.slots[i].offset, op.staged_bytes(record.first + i)});
    }
    items.runs = staged_runs;
  } else {
    const uint32_t first_run = op.run_items[record.first].first_run;
    for (uint32_t i = 0; i < record.count; ++i) {
      const RunItem& item = op.run_items[record.first + i];
      run_items.push_back({item.first_run - first_run, item.run_count, record.claims[i], 0});
    }
    const RunItem& last = run_items.back();
    items.runs = std::span(op.runs).subspan(first_run, last.first_run + last.run_count);
  }
  if (op.blocks.empty()) items.run_items = run_items;
  const Keys keys = op.keys_of(record.first, record.count);
  const Fence fence = op.staged ? Fence{} : op.fence;
  if (op.type == RecordType::kGet) {
    encode(GetRequest{op.namespace_handle, keys, items, op.has_coordinate, op.coordinate, fence,
                      op.lease_to_use, record.progress},
           encoded_);
    return;
  }
  PutRequest put{op.namespace_handle, keys,    items,      op.has_coordinate,
                 op.coordinate,       fence,   op.durable, op.position + record.first,
                 op.prompt_pages,     Bytes(), {}};
  std::vector<uint32_t> ends;
  if (!op.description_ends.empty()) {
    const uint32_t begin = record.first == 0 ? 0 : op.description_ends[record.first - 1];
    for (uint32_t i = 0; i < record.count; ++i)
      ends.push_back(op.description_ends[record.first + i] - begin);
    put.descriptions = Bytes(op.descriptions).subspan(begin, ends.back());
    put.description_ends = ends;
  }
  encode(put, encoded_);
}

void Core::send_aside(Link& link, RecordType type, uint64_t now_ns) {
  Record record;
  record.request = link.last_request + 1;
  record.type = type;
  if (!link.push(record, now_ns + 1'000'000'000, encoded_, 0)) return;
  link.last_request = record.request;
  link.records.emplace(record.request, std::move(record));
  link.publish();
}

bool Core::fence_reached(const Operation& op) const {
  return op.fence.index == kNoIndex || objects.fence_values[op.fence.index] >= op.fence.value;
}

}  // namespace kvsidecar::clientlib
