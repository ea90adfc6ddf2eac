// SPDX-License-Identifier: Apache-2.0
#include "sidecar/conductor/sessions.h"

#include <algorithm>

#include "sidecar/conductor/answers.h"
#include "sidecar/conductor/groups.h"
#include "sidecar/conductor/inbox.h"
#include "sidecar/conductor/leases.h"
#include "sidecar/conductor/regions.h"
#include "sidecar/planted.h"

namespace kvsidecar {
namespace {

// What a session may take in one turn, in bytes of requests: sixteen small ones or one large one,
// so that nobody waits for more than one large request of each other session.
constexpr uint64_t kTurnBytes = 32 * 1024, kRecordBytesMin = 2 * 1024;

// By type where the length doesn't say it: these walk all namespaces or sessions.
uint64_t cost_of(const RecordHead& head, uint32_t length) {
  const auto type = static_cast<RecordType>(head.type);
  if (type == RecordType::kStat || type == RecordType::kWhy) return kTurnBytes;
  return std::max<uint64_t>(length, kRecordBytesMin);
}

// One record at most. Its cost; 0 when none was taken.
uint64_t take_record(World& world, Session& session) {
  alignas(16) static thread_local std::byte payload[kRequestBytesMax];
  const Result<bool> credit = session.out.reserve(1);
  if (!credit.ok()) {
    end_session(world, session, credit.status().text().c_str(), true);
    return 0;
  }
  session.out_of_credit = !*credit;
  if (session.out_of_credit) return 0;
  RecordHead head;
  uint32_t length = 0;
  const Result<int> popped = session.in.pop(head, payload, length);
  if (!popped.ok()) {
    session.out.unreserve(1);
    end_session(world, session, popped.status().text().c_str(), true);
    return 0;
  }
  if (*popped == 0) {
    session.out.unreserve(1);
    return 0;
  }
  world.count.requests.add();
  take_request(world, session, head, Bytes(payload, length));
  return cost_of(head, length);
}

// Nothing that isn't with a worker goes on; what is comes back by itself.
void drop_operations(World& world, Session& session) {
  std::vector<OpRef> ops;
  for (const auto& [request, op] : session.ops) ops.push_back(op);
  for (const OpRef& op : ops) {
    fd_missed(world, op);
    for (uint32_t i = 0; i < op->items.size(); ++i)
      if (op->items[i].state != ItemState::kCopying) settle(world, {op, i}, Code::kUnavailable);
  }
  session.loads.clear();
  session.stores.clear();
}

bool free_to_go(const Session& session) {
  // Whatever still refers to a session is an operation of it that is not answered.
  return session.ended && session.ops.empty() && session.importing == 0 && session.published;
}

}  // namespace

bool take_records(World& world) {
  bool any = false;
  const std::vector<Session*>& order = world.turn_order;
  for (size_t i = 0; i < order.size(); ++i) {
    Session* session = order[(world.turn + i) % order.size()];
    // What its last turns have taken too much is paid first: others come between meanwhile.
    const uint64_t paid = std::min(session->turn_debt, kTurnBytes);
    session->turn_debt -= paid;
    uint64_t taken = 0;
    while (!session->ended && paid + taken + session->turn_debt < kTurnBytes) {
      const uint64_t cost = take_record(world, *session);
      if (cost == 0) break;
      taken += cost;
    }
    if (taken > 0 && !session->ended) session->in.publish_consumed();
    any |= paid + taken > 0;
  }
  return any;
}

bool records_wait(const World& world) {
  return std::any_of(world.turn_order.begin(), world.turn_order.end(), [](Session* session) {
    return !session->ended && !session->out_of_credit && session->in.has_records();
  });
}

void end_session(World& world, Session& session, const char* why, bool hostile) {
  if (session.ended) return;
  session.ended = true;
  (hostile ? world.count.sessions_ended_hostile : world.count.sessions_ended_gone).add();
  world.log.event("session_ended", "session=" + std::to_string(session.id) + " name=\"" +
                                       session.name + "\"" + " pid=" + std::to_string(session.pid) +
                                       " why=\"" + why + "\"");
  if (!planted(Bug::kLeaseOutlivesSession)) end_leases_of(world, session);
  leave_group(world, session);
  drop_operations(world, session);
  session.lookup.reset();
  close_pending_fds(world, session);
  session.attachments.clear();
  session.layouts.clear();
  session.regions.clear();  // close when the last copy lets go
  --world.accounts[session.permissions.entry].sessions;
  world.any_session_ended = true;
}

void free_ended_sessions(World& world) {
  if (!world.any_session_ended) return;
  world.any_session_ended = false;
  std::vector<uint64_t> free;
  for (const auto& [id, session] : world.sessions) {
    if (free_to_go(*session))
      free.push_back(id);
    else if (session->ended)
      world.any_session_ended = true;  // look again next turn
  }
  for (const uint64_t id : free) {
    const auto found = world.sessions.find(id);
    Session* gone = found->second.get();
    std::erase(world.turn_order, gone);
    // munmap of the rings may take long: on the reaper.
    auto share = std::make_shared<SessionShare>(std::move(gone->share));
    world.sessions.erase(found);
    world.send(make_errand([share]() mutable { *share = SessionShare{}; }, nullptr));
  }
}

}  // namespace kvsidecar
