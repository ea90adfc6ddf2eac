// SPDX-License-Identifier: Apache-2.0
#include "sidecar/conductor/conductor.h"

#include <algorithm>

#include "sidecar/conductor/admin.h"
#include "sidecar/conductor/answers.h"
#include "sidecar/conductor/attach.h"
#include "sidecar/conductor/copies.h"
#include "sidecar/conductor/fetches.h"
#include "sidecar/conductor/groups.h"
#include "sidecar/conductor/leases.h"
#include "sidecar/conductor/namespaces.h"
#include "sidecar/conductor/puts.h"
#include "sidecar/conductor/regions.h"
#include "sidecar/conductor/removals.h"
#include "sidecar/conductor/scrub.h"
#include "sidecar/conductor/sessions.h"
#include "sidecar/conductor/slots.h"
#include "sidecar/conductor/transfers.h"
#include "sidecar/conductor/uses.h"
#include "sidecar/conductor/warm_start.h"
#include "sidecar/conductor/world.h"
#include "sidecar/conductor/write_behind.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kSweepNs =
    100'000'000;  // tickets and incomplete pages; leases are swept when due
constexpr uint64_t kBeatNs = 1'000'000;  // a line of every session's memory
constexpr uint64_t kFencePollNs = 200'000;  // a fence may be signalled by somebody who can't kick

bool finish_errands(World& world) {
  bool any = false;
  std::unique_ptr<Errand> errand;
  for (Reaper* reaper : {world.parts.reaper, world.parts.device_reaper}) {
    while (reaper->poll(errand)) {
      --world.errands_away;
      errand->finish();
      errand.reset();
      any = true;
    }
  }
  const auto retry = [](std::deque<std::unique_ptr<Errand>>& waiting, Reaper& reaper) {
    while (!waiting.empty() && reaper.submit(std::move(waiting.front()))) waiting.pop_front();
  };
  retry(world.errands_waiting, *world.parts.reaper);
  retry(world.device_errands_waiting, *world.parts.device_reaper);
  return any;
}

bool finish_store(World& world) {
  if (world.parts.store == nullptr) return false;
  bool any = false;
  StoreDone done;
  while (world.parts.store->poll(done)) {
    any = true;
    switch (done.op) {
      case StoreOp::kRead:
        read_done(world, std::move(done));
        break;
      case StoreOp::kWrite:
        write_done(world, std::move(done));
        break;
      case StoreOp::kFlush:
        flush_done(world, done);
        break;
      case StoreOp::kScan:
        scan_done(world, std::move(done));
        break;
      case StoreOp::kDelete:
      case StoreOp::kUnlink:
        removal_done(world, done);
        trim_store(world);
        break;  // a failure leaves a file that the next scan finds again
    }
    done = StoreDone{};
  }
  retry_removals(world);
  return any;
}

bool finish_checks(World& world) {
  bool any = false;
  HashDone done;
  for (HashWorker* worker : world.parts.hash_workers)
    while (worker->poll(done)) {
      any = true;
      check_done(world, std::move(done));
      done = HashDone{};
    }
  return any;
}

void sweep(World& world) {
  if (world.now_ns < world.next_sweep_ns) return;
  world.next_sweep_ns = world.now_ns + kSweepNs;
  expire_leases(world);
  expire_tickets(world);
  drop_old_fillings(world);
  if (world.parts.store != nullptr && world.scanned) trim_store(world);
}

void beat(World& world) {
  if (world.now_ns < world.next_beat_ns) return;
  world.next_beat_ns = world.now_ns + kBeatNs;
  for (Session* session : world.turn_order)
    session->memory.info().heartbeat.store(world.now_ns, std::memory_order_relaxed);
}

}  // namespace

World::World(const Parts& p, const Limits& l, uint64_t e, EventLog& event_log)
    : parts(p),
      limits(l),
      epoch(e),
      log(event_log),
      segments(l.store_capacity_bytes),
      worker_bytes(p.copy_workers.size(), 0) {
  now_ns = parts.clock->now_ns();
  write_tokens_ns = now_ns;
}

World::~World() {
  parked.clear();
  copies.clear();
  durable_waiters.clear();
  fetches.clear();
  fillings.clear();
  sessions.clear();
}

Status World::unknown_handle(const char* what, uint64_t handle) const {
  if (!of_this_epoch(handle))
    return {Code::kStaleHandle, std::string(what) + " handle " + std::to_string(handle) +
                                    " is of an earlier epoch of the daemon; register it again"};
  return {Code::kUnknownHandle,
          std::string(what) + " handle " + std::to_string(handle) + " is not this session's"};
}

void World::send(std::unique_ptr<Errand> errand) {
  ++errands_away;
  if (errands_waiting.empty() && parts.reaper->submit(std::move(errand))) return;
  count.busy_reaper_queue.add();
  errands_waiting.push_back(std::move(errand));
}

void World::send_to_device(std::unique_ptr<Errand> errand) {
  ++errands_away;
  if (device_errands_waiting.empty() && parts.device_reaper->submit(std::move(errand))) return;
  count.busy_reaper_queue.add();
  device_errands_waiting.push_back(std::move(errand));
}

Conductor::Conductor(const Parts& parts, const Limits& limits, uint64_t epoch, EventLog& log)
    : world_(std::make_unique<World>(parts, limits, epoch, log)) {}
Conductor::~Conductor() = default;

bool Conductor::step() {
  World& world = *world_;
  world.now_ns = world.parts.clock->now_ns();
  bool any = take_records(world);
  publish_all(world);  // what was answered at once needn't wait for the turn's end
  any |= finish_copies(world);
  any |= finish_store(world);
  any |= finish_checks(world);
  any |= finish_errands(world);
  if (!world.parked.empty()) any |= check_fences(world);
  any |= start_copies(world);
  if (world.parts.store != nullptr) any |= start_writes(world);
  expire_operations(world);
  sweep(world);
  any |= tell_some_uses(world);
  any |= scrub(world);
  publish_all(world);
  free_ended_sessions(world);
  beat(world);
  return any;
}

bool Conductor::has_records() const { return records_wait(*world_); }

bool Conductor::has_work() {
  World& world = *world_;
  if (has_records()) return true;
  for (CopyWorker* worker : world.parts.copy_workers)
    if (worker->has_done()) return true;
  for (HashWorker* worker : world.parts.hash_workers)
    if (worker->has_done()) return true;
  if (world.parts.store != nullptr && world.parts.store->has_done()) return true;
  return world.parts.reaper->has_done() || world.parts.device_reaper->has_done();
}

void Conductor::announce_sleep(bool sleeps) {
  for (Session* session : world_->turn_order) {
    std::atomic<uint32_t>& flag = session->memory.info().daemon_sleeps;
    sleeps ? raise_sleep_flag(flag, 1) : lower_sleep_flag(flag, 1);
  }
}

uint64_t Conductor::next_deadline_ns() {
  World& world = *world_;
  uint64_t next = UINT64_MAX;
  if (!world.parked.empty()) next = world.now_ns + kFencePollNs;
  for (const Session* session : world.turn_order)
    next = std::min(next, session->earliest_deadline_ns);
  if (!world.leases.empty() || !world.groups.empty() || !world.fillings.empty())
    next = std::min(next, world.next_sweep_ns);
  return next;
}

uint64_t Conductor::next_session_number() { return ++world_->last_session; }

bool Conductor::has_session_room(const Permissions& permissions) const {
  if (world_->turn_order.size() >= world_->limits.sessions_max) return false;
  if (world_->reaper_is_behind()) return false;  // each session leaves it its memory
  const auto account = world_->accounts.find(permissions.entry);
  return permissions.sessions_max == 0 || account == world_->accounts.end() ||
         account->second.sessions < permissions.sessions_max;
}

void Conductor::open_session(uint64_t number, OpenedSession&& opened) {
  World& world = *world_;
  Account& account = world.accounts[opened.permissions.entry];
  ++account.sessions;
  account.store_bytes_max = opened.permissions.store_bytes_max;
  auto session = std::make_unique<Session>(number, std::move(opened));
  world.turn_order.push_back(session.get());
  world.sessions[number] = std::move(session);
  world.count.sessions_opened.add();
}

bool Conductor::offer_fd(uint64_t number, uint64_t token, UniqueFd fd) {
  const auto found = world_->sessions.find(number);
  const bool open = found != world_->sessions.end() && !found->second->ended;
  if (!open || !fd_fits(*found->second, token)) {
    discard_fd(std::move(fd));
    return false;
  }
  Session& session = *found->second;
  // One that can't be used stays under its token as none, for the registration to say so.
  if (!world_->parts.device->takes(fd.get())) discard_fd(std::move(fd));
  session.pending_fds[token] = std::move(fd);
  fd_arrived(*world_, session, token);
  return true;
}

void Conductor::session_gone(uint64_t number, const char* reason) {
  const auto found = world_->sessions.find(number);
  if (found != world_->sessions.end()) end_session(*world_, *found->second, reason, false);
}

bool Conductor::session_alive(uint64_t number) const {
  const auto found = world_->sessions.find(number);
  return found != world_->sessions.end() && !found->second->ended;
}

void Conductor::restore_namespace(Bytes encoded, uint64_t generation) {
  const Result<NamespaceRef> known = restore_record(*world_, encoded, generation);
  if (!known.ok()) world_->log.event("namespace_refused", "why=\"" + known.status().text() + "\"");
}

void Conductor::add_chunk(std::span<std::byte> memory, bool adopt) {
  adopt_chunk(*world_, memory, adopt);
}
void Conductor::predecessor_gone() { world_->parts.pool->release_quarantine(); }
void Conductor::scan_store() { start_scan(*world_); }
void Conductor::drain() { world_->draining = true; }

bool Conductor::drained() const {
  const World& world = *world_;
  if (!world.copies.empty() || !world.fetches.empty() || !world.store_writes.empty() ||
      !world.store_flushes.empty() || removals_wait(world))
    return false;
  if (world.parts.store != nullptr && !world.write_queue.empty()) return false;
  return std::all_of(world.sessions.begin(), world.sessions.end(),
                     [](const auto& session) { return session.second->ops.empty(); });
}

bool Conductor::quiet() const {
  const World& world = *world_;
  return world.copies.empty() && world.checks.empty() && world.store_in_flight == 0 &&
         world.store_flushes.empty() && world.removals_away == 0 && world.errands_away == 0;
}

const Counters& Conductor::counters() const { return world_->count; }
Gauges Conductor::gauges() const { return gauges_of(*world_); }
std::string Conductor::status_json() const { return kvsidecar::status_json(*world_); }

}  // namespace kvsidecar
