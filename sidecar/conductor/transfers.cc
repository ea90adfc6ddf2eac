// SPDX-License-Identifier: Apache-2.0
#include "sidecar/conductor/transfers.h"

#include <algorithm>

#include "sidecar/conductor/answers.h"
#include "sidecar/conductor/attach.h"
#include "sidecar/conductor/gets.h"
#include "sidecar/conductor/inbox.h"
#include "sidecar/conductor/leases.h"
#include "sidecar/conductor/puts.h"
#include "sidecar/conductor/regions.h"

namespace kvsidecar {
namespace {

// What puts and gets have in common; their structs share these field names.
template <typename Request>
Status admit(World& world, Operation& op, const Request& request) {
  Session& session = *op.session;
  if (world.draining) return {Code::kDraining, "the daemon is shutting down"};
  Result<Attachment*> found = find_attachment(world, session, request.namespace_handle);
  if (!found.ok()) return found.status();
  const Attachment& attachment = **found;
  op.space = attachment.space;
  op.generation = attachment.generation;
  op.shape = attachment.shape;
  op.coordinate = request.has_coordinate ? request.coordinate : attachment.coordinate;
  const std::optional<uint32_t> part = op.space->fields.part_index(op.coordinate);
  if (!part.has_value())
    return invalid("coordinate (tp " + std::to_string(op.coordinate.tp) + ", pp " +
                   std::to_string(op.coordinate.pp) + ", cp " + std::to_string(op.coordinate.cp) +
                   ") is no part of the namespace");
  op.part = *part;
  const uint64_t part_bytes = op.space->fields.parts[op.part].bytes;
  if (request.fence.index != kNoIndex) {
    op.fence = session.memory.fence(request.fence.index);
    op.fence_value = request.fence.value;
    if (op.fence == nullptr)
      return invalid("fence " + std::to_string(request.fence.index) +
                     " is not below the session's " +
                     std::to_string(session.memory.geometry.fences));
  }
  const Status status = resolve_items(world, session, request.items, part_bytes, op);
  if (!status.ok()) return status;
  const uint64_t bytes = part_bytes * op.items.size();
  const uint64_t limit = session.permissions.bytes_in_flight_max;
  const uint64_t held = world.accounts[session.permissions.entry].bytes_in_flight;
  if (limit != 0 && (bytes > limit || held > limit - bytes))
    return {Code::kOverQuota, "bytes of the request: " + std::to_string(bytes) + " with " +
                                  std::to_string(held) + " in flight pass bytes_in_flight_max " +
                                  std::to_string(limit)};
  op.bytes = bytes;
  op.key_bytes = request.keys.key_bytes;
  op.keys.assign(request.keys.bytes.begin(), request.keys.bytes.end());
  op.hashes.reserve(op.items.size());
  for (uint32_t i = 0; i < op.items.size(); ++i)
    op.hashes.push_back(page_hash(op.space->id, op.generation, request.keys[i]));
  return {};
}

// From here on the request is answered by its items.
void enter(World& world, const OpRef& op) {
  Session& session = *op->session;
  op->unsettled = static_cast<uint32_t>(op->items.size());
  session.ops[op->request] = op;
  session.earliest_deadline_ns = std::min(session.earliest_deadline_ns, op->deadline_ns);
  session.bytes_in_flight += op->bytes;
  world.accounts[session.permissions.entry].bytes_in_flight += op->bytes;
}

// A refused request's claims are given back: nobody will touch the memory.
void turn_away(World& world, const OpRef& op, const Status& status) {
  for (const OpItem& item : op->items)
    if (item.claim) item.claim.move(ClaimState::kQueued, ClaimState::kSkipped);
  op->bytes = 0;
  world.count.requests_refused.add();
  const size_t pages = std::max<size_t>(op->items.size(), 1);
  const bool refused = status.code() == Code::kOverQuota || status.code() == Code::kDraining;
  if (op->type == RecordType::kPut) {
    world.count.pages_put.add(pages);
    (refused ? world.count.pages_put_refused : world.count.pages_put_failed).add(pages);
  } else {
    world.count.pages_get.add(pages);
    world.count.pages_get_failed.add(pages);
  }
  answer(world, *op, status.code(), 0, 0, text_bytes(status.text()));
}

Status admit_descriptions(const Attachment& attachment, const PutRequest& request) {
  uint32_t begin = 0;
  for (size_t i = 0; i < request.description_ends.size(); ++i) {
    const uint32_t bytes = request.description_ends[i] - begin;
    begin = request.description_ends[i];
    if (bytes > attachment.description_bytes_max)
      return invalid("description of item " + std::to_string(i) + " has " + std::to_string(bytes) +
                     " bytes; this attach reserved " +
                     std::to_string(attachment.description_bytes_max) +
                     ", raise its description_bytes_max");
  }
  return {};
}

// A put that begins where a lookup of this session found its first miss is the same use of the
// prompt.
uint64_t access_of(World& world, Session& session, const Operation& op) {
  for (auto end = session.chain_ends.rbegin(); end != session.chain_ends.rend(); ++end) {
    const bool same = end->page != 0 ? end->page == op.hashes[0].low
                                     : op.position != 0 && end->position == op.position;
    if (!same) continue;
    end->page = 0;
    end->position = op.position + static_cast<uint32_t>(op.items.size());
    return end->request;
  }
  return ++world.last_access;
}

void expire(World& world, const OpRef& op) {
  if (op->type == RecordType::kRegisterRegion) return fd_missed(world, op);
  if (op->type == RecordType::kAttach || op->type == RecordType::kClear)
    return expire_record(world, op);
  for (uint32_t i = 0; i < op->items.size(); ++i) {
    const ItemState state = op->items[i].state;
    if (state == ItemState::kSettled || state == ItemState::kCopying) continue;
    if (state == ItemState::kDurable) world.count.not_stored.add();
    settle(world, {op, i}, state == ItemState::kDurable ? Code::kNotStored : Code::kTimeout);
  }
}

}  // namespace

void take_put(World& world, const OpRef& op, const PutRequest& request) {
  Session& session = *op->session;
  Status status = session.permissions.put
                      ? admit(world, *op, request)
                      : Status(Code::kDenied, "put: this peer's [[allow]] entry doesn't list put");
  if (status.ok())
    status = admit_descriptions(session.attachments.at(request.namespace_handle), request);
  if (!status.ok()) return turn_away(world, op, status);
  op->durable = request.durable;
  op->position = request.position;
  op->prompt_pages = request.prompt_pages;
  op->descriptions.assign(request.descriptions.begin(), request.descriptions.end());
  op->description_ends.assign(request.description_ends.begin(), request.description_ends.end());
  op->access = access_of(world, session, *op);
  enter(world, op);
  if (op->fence_reached()) return start_put(world, op);
  op->parked = true;
  world.parked.push_back(op);
}

void take_get(World& world, const OpRef& op, const GetRequest& request) {
  Session& session = *op->session;
  Status status = session.permissions.read
                      ? admit(world, *op, request)
                      : Status(Code::kDenied, "get: this peer's [[allow]] entry doesn't list read");
  if (status.ok() && request.lease != 0) {
    const Result<Lease*> lease = find_lease(world, session, request.lease);
    // An expired lease costs nothing but its pins: the get is tried, gone pages are misses.
    if (!lease.ok() && lease.status().code() != Code::kExpired) status = lease.status();
  }
  if (status.ok() && request.progress != kNoIndex) {
    if (request.progress >= session.memory.geometry.progress_words)
      status =
          invalid("progress " + std::to_string(request.progress) + " is not below the session's " +
                  std::to_string(session.memory.geometry.progress_words));
    else if (request.items.blocks.empty())
      status = invalid("progress needs items in block layouts, not run lists");
    else
      op->progress = &session.memory.info().progress[request.progress];
  }
  for (size_t i = 1; status.ok() && op->progress != nullptr && i < op->items.size(); ++i)
    if (op->items[i].layout->runs.size() != op->items[0].layout->runs.size())
      status = invalid("progress: item " + std::to_string(i) +
                       "'s layout has another number of runs than item 0's");
  if (!status.ok()) return turn_away(world, op, status);
  if (op->progress != nullptr)  // what the word's last get left must not look like this one's
    op->progress->store(0, std::memory_order_release);
  enter(world, op);
  start_get(world, op);
}

bool check_fences(World& world) {
  bool any = false;
  for (size_t i = 0; i < world.parked.size();) {
    const OpRef op = world.parked[i];
    if (!op->answered && !op->fence_reached()) {
      ++i;
      continue;
    }
    world.parked[i] = world.parked.back();
    world.parked.pop_back();
    op->parked = false;
    if (op->answered) continue;
    any = true;
    if (op->type == RecordType::kPut)
      start_put(world, op);
    else
      advance_get(world, op);
  }
  return any;
}

void expire_operations(World& world) {
  for (Session* session : world.turn_order) {
    if (session->earliest_deadline_ns > world.now_ns) continue;
    std::vector<OpRef> late;
    expire_lookup(world, *session);
    session->earliest_deadline_ns =
        session->lookup.has_value() ? session->lookup->deadline_ns : UINT64_MAX;
    for (const auto& [request, op] : session->ops) {
      if (op->deadline_ns <= world.now_ns)
        late.push_back(op);
      else
        session->earliest_deadline_ns = std::min(session->earliest_deadline_ns, op->deadline_ns);
    }
    for (const OpRef& op : late) expire(world, op);
  }
}

}  // namespace kvsidecar
