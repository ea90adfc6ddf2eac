// SPDX-License-Identifier: Apache-2.0
#include "sidecar/conductor/answers.h"

#include <algorithm>

#include "ipc/os.h"
#include "sidecar/conductor/puts.h"
#include "sidecar/conductor/sessions.h"
#include "sidecar/conductor/slots.h"
#include "sidecar/planted.h"

namespace kvsidecar {
namespace {

constexpr size_t kCellPayloadMax = kCompletionCellBytes - sizeof(CompletionHead);

void count_put(Counters& count, Code code) {
  count.pages_put.add();
  switch (code) {
    case Code::kOk:
    case Code::kNotStored:  // the page is in host memory all the same
      return count.pages_put_stored.add();
    case Code::kOkPart:
      count.parts_put.add();
      return count.pages_put_stored.add();
    case Code::kExists:
      return count.pages_put_exists.add();
    case Code::kBusy:
    case Code::kOverQuota:
    case Code::kDraining:
      return count.pages_put_refused.add();
    case Code::kAbandoned:
      return count.pages_put_abandoned.add();
    default:
      return count.pages_put_failed.add();
  }
}

void count_get(Counters& count, const OpItem& item) {
  count.pages_get.add();
  switch (item.status) {
    case Code::kOk:
      return item.from_store ? count.pages_get_store.add() : count.pages_get_host.add();
    case Code::kMiss:
    case Code::kIoError:
    case Code::kCorrupt:
      return count.pages_get_miss.add();
    default:
      return count.pages_get_failed.add();
  }
}

Code whole_status(const Operation& op) {
  for (const OpItem& item : op.items)
    if (item.status == Code::kMemoryFault) return Code::kMemoryFault;
  return Code::kOk;
}

void finish(World& world, Operation& op) {
  std::vector<std::byte> codes(op.items.size());
  uint64_t done = 0;
  for (size_t i = 0; i < op.items.size(); ++i) {
    const OpItem& item = op.items[i];
    codes[i] = static_cast<std::byte>(item.status);
    if (is_success(item.status)) ++done;
    if (op.type == RecordType::kPut) count_put(world.count, item.status);
    if (op.type == RecordType::kGet) count_get(world.count, item);
  }
  const Code whole = whole_status(op);
  // Memory that vanishes under a copy ends the session, once it has been told.
  if (whole == Code::kMemoryFault) op.session->memory_fault = true;
  // A store operation that takes long, or never ends, may keep the request itself: the engine's
  // memory isn't needed any more.
  op.layouts.clear();
  op.regions.clear();
  answer(world, op, whole, 0, done, codes);
}

}  // namespace

void settle(World& world, const ItemRef& ref, Code code) {
  OpItem& item = ref.item();
  if (item.state == ItemState::kSettled) return;
  const bool owned_a_part = item.state == ItemState::kReady && ref.op->type == RecordType::kPut;
  item.state = ItemState::kSettled;
  item.status = code;
  if (owned_a_part) part_not_copied(world, ref);
  if (item.claim) {
    const ClaimState end = code == Code::kTimeout ? ClaimState::kRevoked : ClaimState::kSkipped;
    if (!item.claim.move(ClaimState::kQueued, end) && item.claim.state() == ClaimState::kRevoked &&
        code != Code::kExists)
      if (code == Code::kMiss || code == Code::kBusy || code == Code::kTimeout)
        item.status = Code::kRevoked;
  }
  if (item.pinned) {
    item.pinned = false;
    unpin(world, item.entry);
  }
  if (--ref.op->unsettled == 0) finish(world, *ref.op);
}

void settle_all(World& world, const OpRef& op, Code code) {
  for (uint32_t i = 0; i < op->items.size(); ++i) settle(world, {op, i}, code);
}

void answer(World& world, Operation& op, Code status, uint64_t handle, uint64_t value,
            Bytes payload) {
  KV_CHECK(!op.answered);
  op.answered = true;
  Session& session = *op.session;
  session.bytes_in_flight -= op.bytes;
  world.accounts[session.permissions.entry].bytes_in_flight -= op.bytes;
  CompletionHead head{};
  head.request = op.request;
  head.status = static_cast<uint8_t>(status);
  head.type = static_cast<uint8_t>(op.type);
  head.cells = 1;
  head.items = static_cast<uint32_t>(op.items.size());
  head.handle = handle;
  head.value = value;
  head.received_ns = op.received_ns;
  push_cell(world, session, head, payload);
  const auto kept = session.ops.find(op.request);
  if (kept != session.ops.end() && kept->second.get() == &op) session.ops.erase(kept);
}

void answer_at_once(World& world, Session& session, const RecordHead& head) {
  CompletionHead answer{};
  answer.request = head.request;
  answer.type = static_cast<uint8_t>(head.type);
  answer.cells = 1;
  answer.received_ns = answer.done_ns = world.now_ns;
  push_cell(world, session, answer, {});
}

void refuse(World& world, Session& session, const RecordHead& head, uint64_t received_ns,
            const Status& status, uint32_t cells) {
  world.count.requests_refused.add();
  for (uint32_t cell = 0; cell < cells; ++cell) {
    CompletionHead answer{};
    answer.request = head.request;
    answer.status = static_cast<uint8_t>(status.code());
    answer.type = static_cast<uint8_t>(head.type);
    answer.cell = static_cast<uint16_t>(cell);
    answer.cells = static_cast<uint16_t>(cells);
    answer.received_ns = received_ns;
    push_cell(world, session, answer, cell == 0 ? text_bytes(status.text()) : Bytes{});
  }
}

void push_cell(World& world, Session& session, const CompletionHead& head, Bytes payload) {
  if (session.ended) return session.out.unreserve(1);
  if (planted(Bug::kLostCompletion) && head.request % 64 == 9) return session.out.unreserve(1);
  CompletionHead filled = head;
  payload = payload.first(std::min(payload.size(), kCellPayloadMax));
  filled.length = static_cast<uint32_t>(payload.size());
  if (filled.done_ns == 0) filled.done_ns = world.parts.clock->now_ns();
  session.out.push(filled, payload);
  if (session.published) {
    session.published = false;
    world.unpublished.push_back(&session);
  }
}

void publish_all(World& world) {
  // The two vectors take turns, so that neither is allocated anew; ending a session may answer.
  world.publishing.swap(world.unpublished);
  for (Session* session : world.publishing) {
    session->published = true;
    if (session->ended) continue;
    const uint32_t sleeps = session->out.publish();
    if ((sleeps & 1) != 0) futex_wake(session->memory.info().doorbell);
    if ((sleeps & 2) != 0 && session->share.notify) ring_bell(session->share.notify.get());
    if (session->memory_fault)
      end_session(world, *session, "engine memory vanished under a copy", true);
  }
  world.publishing.clear();
}

}  // namespace kvsidecar
