// SPDX-License-Identifier: Apache-2.0
#include "sidecar/conductor/inbox.h"

#include <algorithm>

#include "ipc/codec.h"
#include "sidecar/conductor/admin.h"
#include "sidecar/conductor/answers.h"
#include "sidecar/conductor/attach.h"
#include "sidecar/conductor/deletes.h"
#include "sidecar/conductor/leases.h"
#include "sidecar/conductor/lookups.h"
#include "sidecar/conductor/regions.h"
#include "sidecar/conductor/sessions.h"
#include "sidecar/conductor/transfers.h"

namespace kvsidecar {
namespace {

OpRef make_op(World& world, Session& session, const RecordHead& head) {
  auto op = std::make_shared<Operation>();
  op->session = &session;
  op->type = static_cast<RecordType>(head.type);
  op->request = head.request;
  op->deadline_ns = head.deadline_ns;
  op->received_ns = world.now_ns;
  return op;
}

// In flight: found by cancel and by its deadline, ended with the session.
OpRef keep_op(World& world, Session& session, const RecordHead& head) {
  OpRef op = make_op(world, session, head);
  session.ops[head.request] = op;
  session.earliest_deadline_ns = std::min(session.earliest_deadline_ns, op->deadline_ns);
  return op;
}

Status check_head(const World& world, const Session& session, const RecordHead& head) {
  if (head.deadline_ns == 0)
    return invalid("deadline_ns is 0; give every request an absolute CLOCK_MONOTONIC deadline");
  if (head.deadline_ns > world.now_ns &&
      head.deadline_ns - world.now_ns > world.limits.deadline_max_ns)
    return invalid("deadline_ns lies " +
                   std::to_string((head.deadline_ns - world.now_ns) / 1'000'000'000) +
                   " s ahead; at most " +
                   std::to_string(world.limits.deadline_max_ns / 1'000'000'000) + " s are allowed");
  if (session.ops.count(head.request) != 0)
    return invalid("request " + std::to_string(head.request) +
                   " is in flight already; numbers must grow");
  return {};
}

// Each decodes, refuses or serves. A lookup out of order is the one case that ends the session.
template <typename Request, typename Serve>
void with(World& world, Session& session, const RecordHead& head, Result<Request> request,
          Serve serve) {
  if (!request.ok()) return refuse(world, session, head, world.now_ns, request.status());
  serve(*request);
}

void serve_release(World& world, Session& session, const RecordHead& head,
                   const ReleaseRequest& request) {
  Result<Lease*> lease = find_lease(world, session, request.lease);
  if (!lease.ok()) {
    const OpRef op = make_op(world, session, head);
    return answer(world, *op, lease.status().code(), 0, 0, text_bytes(lease.status().text()));
  }
  end_lease(world, request.lease);
  answer_at_once(world, session, head);
}

// Items that no copy worker has are given up; the others' claims are the client's to revoke or
// abandon.
void serve_cancel(World& world, Session& session, const RecordHead& head,
                  const CancelRequest& request) {
  const OpRef op = make_op(world, session, head);
  const auto found = session.ops.find(request.request);
  uint64_t dropped = 0;
  if (found != session.ops.end()) {
    const OpRef cancelled = found->second;
    for (uint32_t i = 0; i < cancelled->items.size(); ++i) {
      const ItemState state = cancelled->items[i].state;
      if (state == ItemState::kCopying || state == ItemState::kSettled) continue;
      // A durable item's bytes are in already: only the wait for the store is given up.
      const bool waits_for_store = state == ItemState::kDurable;
      if (waits_for_store) world.count.not_stored.add();
      settle(world, {cancelled, i}, waits_for_store ? Code::kNotStored : Code::kRevoked);
      ++dropped;
    }
  }
  answer(world, *op, Code::kOk, 0, dropped, {});
}

void refuse_lookup(World& world, Session& session, const RecordHead& head, const Status& status) {
  session.dropped_lookup = head.request;
  refuse(world, session, head, world.now_ns, status);
}

void serve_lookup(World& world, Session& session, const RecordHead& head,
                  Result<LookupRequest> request) {
  const bool begins = request.ok() && request->offset == 0;
  if (!session.lookup.has_value() && !begins && head.request == session.dropped_lookup)
    return session.out.unreserve(1);
  if (!request.ok()) {
    if (!session.lookup.has_value()) return refuse_lookup(world, session, head, request.status());
    return end_session(world, session, "a record of a lookup doesn't decode", true);
  }
  if (!take_lookup(world, session, head, *request))
    return end_session(world, session, "records of a lookup out of order", true);
  if (session.lookup.has_value())
    session.earliest_deadline_ns = std::min(session.earliest_deadline_ns, head.deadline_ns);
}

}  // namespace

void expire_lookup(World& world, Session& session) {
  if (!session.lookup.has_value() || session.lookup->deadline_ns > world.now_ns) return;
  const LookupAssembly late = std::move(*session.lookup);
  session.lookup.reset();
  session.dropped_lookup = late.request;
  RecordHead head{};
  head.request = late.request;
  head.type = static_cast<uint16_t>(RecordType::kLookup);
  const size_t came = late.keys.size() / late.key_bytes;
  const Status status(Code::kTimeout, "lookup: " + std::to_string(came) + " of its " +
                                          std::to_string(late.total) +
                                          " keys came before its deadline");
  refuse(world, session, head, late.received_ns, status, static_cast<uint32_t>(late.cells.size()));
}

void take_request(World& world, Session& session, const RecordHead& head, Bytes record) {
  const auto type = static_cast<RecordType>(head.type);
  if (session.lookup.has_value() && type != RecordType::kLookup)
    return end_session(world, session, "another request between the records of a lookup", true);
  const Status status = check_head(world, session, head);
  if (!status.ok()) {
    if (session.lookup.has_value())
      return end_session(world, session, "a lookup's head changed between its records", true);
    if (type == RecordType::kLookup && head.request == session.dropped_lookup)
      return session.out.unreserve(1);
    if (type == RecordType::kLookup && session.ops.count(head.request) == 0)
      return refuse_lookup(world, session, head, status);
    return refuse(world, session, head, world.now_ns, status);
  }
  switch (type) {
    case RecordType::kNoop:
      return answer_at_once(world, session, head);
    case RecordType::kAttach:
      return with(world, session, head, decode_attach(record), [&](const AttachRequest& r) {
        start_attach(world, keep_op(world, session, head), r);
      });
    case RecordType::kRegisterRegion:
      return with(world, session, head, decode_register_region(record),
                  [&](const RegisterRegionRequest& r) {
                    start_register_region(world, keep_op(world, session, head), r);
                  });
    case RecordType::kRegisterLayout:
      return with(world, session, head, decode_register_layout(record),
                  [&](const RegisterLayoutRequest& r) {
                    register_layout(world, make_op(world, session, head), r);
                  });
    case RecordType::kUnregister:
      return with(world, session, head, decode_unregister(record), [&](const UnregisterRequest& r) {
        start_unregister(world, keep_op(world, session, head), r.handle);
      });
    case RecordType::kLookup:
      return serve_lookup(world, session, head, decode_lookup(record));
    case RecordType::kPut:
      return with(world, session, head, decode_put(record),
                  [&](const PutRequest& r) { take_put(world, make_op(world, session, head), r); });
    case RecordType::kGet:
      return with(world, session, head, decode_get(record),
                  [&](const GetRequest& r) { take_get(world, make_op(world, session, head), r); });
    case RecordType::kRelease:
      return with(world, session, head, decode_release(record),
                  [&](const ReleaseRequest& r) { serve_release(world, session, head, r); });
    case RecordType::kCancel:
      return with(world, session, head, decode_cancel(record),
                  [&](const CancelRequest& r) { serve_cancel(world, session, head, r); });
    case RecordType::kDelete:
      return with(world, session, head, decode_delete(record), [&](const DeleteRequest& r) {
        delete_pages(world, make_op(world, session, head), r);
      });
    case RecordType::kClear:
      return with(world, session, head, decode_clear(record), [&](const ClearRequest& r) {
        start_clear(world, keep_op(world, session, head), r);
      });
    case RecordType::kStat:
      return with(world, session, head, decode_stat(record), [&](const StatRequest& r) {
        serve_stat(world, make_op(world, session, head), r);
      });
    case RecordType::kWhy:
      return with(world, session, head, decode_why(record),
                  [&](const WhyRequest& r) { serve_why(world, make_op(world, session, head), r); });
  }
  refuse(world, session, head, world.now_ns,
         invalid("type " + std::to_string(head.type) +
                 " of record is not known; is the client newer than the daemon?"));
}

}  // namespace kvsidecar
