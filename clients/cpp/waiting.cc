// SPDX-License-Identifier: Apache-2.0
// Waiting for answers: spin, announce, look again, sleep on the doorbell. Every sleep is capped, so
// that a lost wake-up is slow and never a hang.
#include <algorithm>

#include "clients/cpp/client.h"

namespace kvsidecar::clientlib {
namespace {

constexpr int kLooksPerClock = 16;
constexpr uint64_t kSleepMaxNs = 50'000'000;
constexpr uint64_t kFeedPauseNs = 1'000'000;    // while records wait for room in a ring
constexpr uint64_t kFadingPauseNs = 2'000'000;  // no doorbell rings for a lost link

Status unknown_op(uint64_t id) {
  return {Code::kUnknownHandle, "operation " + std::to_string(id) +
                                    " is not known to this client; it may have been freed"};
}

}  // namespace

bool Client::finished(std::span<const uint64_t> ids) {
  return std::all_of(ids.begin(), ids.end(), [this](uint64_t id) {
    const Operation* op = core_.find(id);
    return op == nullptr || op->finished;
  });
}

// Sleeps until something may have happened, at most until then.
void Client::sleep(Lock& lock, uint64_t until_ns) {
  const std::shared_ptr<Link> link = core_.current;
  const uint64_t now_ns = monotonic_ns();
  uint64_t nap_ns = until_ns > now_ns ? until_ns - now_ns : 0;
  nap_ns = std::min(nap_ns, link ? kSleepMaxNs : kFadingPauseNs);
  if (core_.feeding()) nap_ns = std::min(nap_ns, kFeedPauseNs);
  const uint64_t next_ns = core_.next_deadline_ns();
  if (next_ns != UINT64_MAX) nap_ns = std::min(nap_ns, next_ns > now_ns ? next_ns - now_ns : 0);
  if (nap_ns == 0) return;
  if (!link) {
    static const std::atomic<uint32_t> never{0};
    lock.unlock();
    futex_wait(never, 0, nap_ns);
    lock.lock();
    return;
  }
  InfoPage& info = link->memory.info();
  const uint32_t seen = info.doorbell.load(std::memory_order_seq_cst);
  ++sleepers_;
  raise_sleep_flag(link->memory.cell_page().client_sleeps, 1);
  Bytes payload;
  if (link->consumer.peek(payload) == nullptr) {
    lock.unlock();
    futex_wait(info.doorbell, seen, nap_ns);
    lock.lock();
  }
  if (--sleepers_ == 0) lower_sleep_flag(link->memory.cell_page().client_sleeps, 1);
}

// Looks for an answer until then. On `published` itself: the doorbell would be one more line to
// fetch from the daemon's core.
void Client::spin(Lock& lock, Link& link, uint64_t until_ns, uint64_t& now_ns) {
  const std::atomic<uint64_t>& published = link.memory.info().published;
  const uint64_t seen = published.load(std::memory_order_acquire);
  Bytes payload;
  if (link.consumer.peek(payload) != nullptr) return;
  lock.unlock();
  do {
    for (int i = 0; i < kLooksPerClock && published.load(std::memory_order_acquire) == seen; ++i)
      relax_cpu();
    now_ns = monotonic_ns();
  } while (now_ns < until_ns && published.load(std::memory_order_acquire) == seen);
  lock.lock();
}

// True when all have finished. The lock is let go while spinning and sleeping.
bool Client::await(Lock& lock, std::span<const uint64_t> ids, uint64_t until_ns, uint64_t now_ns) {
  const uint64_t begin_ns = now_ns;
  const bool spins = !options_.spin_while_it_pays || spin_.pays();
  const uint64_t spin_until_ns = spins ? now_ns + options_.spin_ns : 0;
  for (bool waited = false;; waited = true) {
    core_.tick(now_ns);
    signal_changes();
    const bool done = finished(ids);
    if (waited && (done || now_ns >= until_ns)) spin_.waited(now_ns - begin_ns);
    if (done || now_ns >= until_ns) return done;
    const std::shared_ptr<Link> link = core_.current;
    if (link && now_ns < spin_until_ns) {
      spin(lock, *link, spin_until_ns, now_ns);
    } else {
      sleep(lock, until_ns);
      now_ns = monotonic_ns();
    }
  }
}

// Who sleeps on the doorbell or watches the event fd learns of ends that the daemon didn't ring
// for.
void Client::signal_changes() {
  if (core_.changes == changes_told_) return;
  changes_told_ = core_.changes;
  if (sleepers_ > 0 && core_.current) futex_wake(core_.current->memory.info().doorbell);
  if (event_wanted_ && !core_.events.empty()) eventfd_signal(event_.get());
}

size_t Client::poll(kvs_event* events, size_t capacity) {
  Lock lock(mutex_);
  if (event_wanted_) {
    eventfd_drain(event_.get());
    if (core_.current) eventfd_drain(core_.current->connection.share.notify.get());
  }
  core_.tick(monotonic_ns());
  size_t count = 0;
  while (count < capacity && !core_.events.empty()) {
    events[count] = core_.events.front();
    Operation* op = core_.find(events[count].op);
    KV_CHECK(op != nullptr);
    core_.forget_event(*op);
    ++count;
  }
  signal_changes();
  if (event_wanted_ && !core_.events.empty()) eventfd_signal(event_.get());
  return count;
}

Status Client::wait(std::span<const uint64_t> ids, uint64_t timeout_ns) {
  const uint64_t now_ns = monotonic_ns();
  const uint64_t asked = timeout_ns == 0 ? options_.default_timeout_ns : timeout_ns;
  const uint64_t until_ns = asked > UINT64_MAX - now_ns ? UINT64_MAX : now_ns + asked;
  Lock lock(mutex_);
  for (const uint64_t id : ids)
    if (core_.find(id) == nullptr) return unknown_op(id);
  if (!await(lock, ids, until_ns, now_ns))
    return {Code::kTimeout, "not finished yet; the operation goes on"};
  for (const uint64_t id : ids)
    if (Operation* op = core_.find(id)) core_.forget_event(*op);
  return {};
}

Status Client::result(uint64_t id, kvs_result& out) {
  Lock lock(mutex_);
  Operation* op = core_.find(id);
  if (op == nullptr || op->freed) return unknown_op(id);
  if (!op->finished) {
    core_.tick(monotonic_ns());
    signal_changes();
  }
  if (!op->finished) return {Code::kBusy, "not finished yet; the operation goes on"};
  out.status = static_cast<kvs_status>(op->status);
  out.flags = op->flags;
  const bool lookup = op->type == RecordType::kLookup;
  out.items = !lookup && !op->items.empty() ? op->items.data() : nullptr;
  out.places = lookup && !op->items.empty() ? op->items.data() : nullptr;
  out.item_count = op->items.size();
  out.restorable = op->restorable.empty() ? nullptr : op->restorable.data();
  out.restorable_bytes = op->restorable.size();
  out.longest = lookup ? op->longest : 0;
  out.lease = lookup ? op->handle : 0;
  out.generation = op->type == RecordType::kClear ? op->value : 0;
  out.text = op->text.c_str();
  out.text_bytes = op->text.size();
  out.submitted_ns = op->submitted_ns;
  out.finished_ns = op->finished_ns;
  out.served_ns = op->served_ns;
  return {};
}

Status Client::progress(uint64_t id, uint64_t& runs) {
  Lock lock(mutex_);
  Operation* op = core_.find(id);
  if (op == nullptr) return unknown_op(id);
  if (!op->finished) core_.tick(monotonic_ns());
  signal_changes();
  runs = core_.progress(*op);
  return {};
}

Status Client::cancel(uint64_t id, uint8_t* free_items) {
  Lock lock(mutex_);
  Operation* op = core_.find(id);
  if (op == nullptr) return unknown_op(id);
  core_.tick(monotonic_ns());
  core_.cancel(*op, monotonic_ns(), free_items);
  signal_changes();
  return {};
}

Status Client::revoke(uint64_t id, std::span<const uint32_t> indices, uint8_t* free_items) {
  Lock lock(mutex_);
  Operation* op = core_.find(id);
  if (op == nullptr) return unknown_op(id);
  if (!op->has_claims()) return invalid("op: only puts and gets have items to revoke; cancel it");
  for (const uint32_t index : indices)
    if (index >= op->count)
      return invalid("indices: " + std::to_string(index) + " is not below the operation's " +
                     std::to_string(op->count) + " items");
  core_.tick(monotonic_ns());
  for (size_t i = 0; i < indices.size(); ++i) {
    const bool is_free = core_.revoke(*op, indices[i]);
    if (free_items != nullptr) free_items[i] = is_free ? 1 : 0;
  }
  core_.finish_revoked(*op, monotonic_ns());
  signal_changes();
  return {};
}

Status Client::free_op(uint64_t id) {
  Lock lock(mutex_);
  Operation* op = core_.find(id);
  if (op == nullptr || op->freed) return unknown_op(id);
  const bool erased = core_.erase(*op, monotonic_ns());
  signal_changes();
  if (!erased) return {Code::kBusy, "a get of it is being copied; wait for it, then free it"};
  return {};
}

}  // namespace kvsidecar::clientlib
