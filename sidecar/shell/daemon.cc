// SPDX-License-Identifier: Apache-2.0
#include "sidecar/shell/daemon.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "ipc/identity.h"
#include "sidecar/digest.h"
#include "sidecar/shell/daemon_parts.h"
#include "sidecar/shell/log.h"
#include "sidecar/shell/sd_notify.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kMillisecondNs = 1'000'000;
constexpr int kLooksPerTurn = 64, kRingLooks = 8;
constexpr uint64_t kHousekeepingNs = kMillisecondNs;  // sockets and signals, while busy
constexpr uint64_t kSnapshotNs = 200 * kMillisecondNs;
constexpr uint64_t kSleepCapNs = kSnapshotNs;  // all else wakes it, or is a deadline
constexpr uint64_t kTakeDownNs = 5'000 * kMillisecondNs;

}  // namespace

void DaemonEventLog::event(const char* name, const std::string& fields) {
  const std::string_view text = name;
  const bool bad = text.find("fail") != std::string_view::npos ||
                   text.find("hostile") != std::string_view::npos ||
                   text.find("corrupt") != std::string_view::npos;
  log_line(bad ? LogLevel::kWarning : LogLevel::kInfo, name, fields);
}

Daemon::Daemon(std::unique_ptr<State> state) : state_(std::move(state)) {}
Daemon::~Daemon() = default;

void Daemon::State::leave_snapshot() {
  MetricsSnapshot now;
  now.gauges = conductor->gauges();
  now.epoch = epoch;
  now.chunks = chunks->opened();
  now.chunks_planned = chunks->planned();
  now.reachable = listener->reachable();
  if (!now.reachable && reachable)
    log_event(LogLevel::kError, "socket_gone",
              {{"path", config.socket},
               {"text", "no new client can attach; restart kvsidecard to make it again"}});
  reachable = now.reachable;
  metrics.leave_snapshot(now);
}

void Daemon::State::read_signals() {
  signalfd_siginfo info{};
  while (::read(signals.get(), &info, sizeof info) == sizeof info) {
    const uint64_t now_ns = clock.now_ns();
    // A terminal and systemd ask the supervisor too, which passes it on: that is one asking, not
    // two.
    const bool passed_on = info.ssi_pid == static_cast<uint32_t>(::getppid());
    const bool again = ++(passed_on ? asked_by_parent : asked_directly) > 1;
    if (drain_until_ns != 0) {
      if (again) drain_until_ns = now_ns;  // no more waiting
      continue;
    }
    drain_until_ns = now_ns + config.drain_timeout_ns;
    log_event(
        LogLevel::kInfo, "draining",
        {{"signal", info.ssi_signo}, {"timeout_ms", config.drain_timeout_ns / kMillisecondNs}});
    sd_notify("STOPPING=1\nSTATUS=draining");
    listener->drain();
    chunks->stop();
    conductor->drain();
  }
}

void Daemon::State::tell_predecessor_gone(uint64_t now_ns) {
  // Slots are quarantined as chunks come in, so the last one must be in first.
  if (predecessor_told || !chunks->done()) return;
  if (store.store && now_ns - started_ns < store.predecessor_io_ns) return;
  if (!runtime_dir->predecessor_gone()) return;
  predecessor_told = true;
  conductor->predecessor_gone();
}

void Daemon::State::housekeep(uint64_t now_ns) {
  housekeeping_ns = now_ns + kHousekeepingNs;
  listener->step();
  chunks->step();
  if (chunk_thread && chunks->done()) chunk_thread.reset();
  read_signals();
  if (now_ns < snapshot_ns) return;
  snapshot_ns = now_ns + kSnapshotNs;
  tell_predecessor_gone(now_ns);
  leave_snapshot();
  log_suppressed();
  const uint64_t interval_ns = sd_watchdog_interval_ns();
  if (interval_ns == 0 || now_ns < watchdog_ns) return;
  watchdog_ns = now_ns + std::min(interval_ns, uint64_t{1'000'000'000});
  sd_notify("WATCHDOG=1");
}

void Daemon::State::sleep(uint64_t now_ns) {
  waker.announce();
  conductor->announce_sleep(true);
  if (!conductor->has_work()) {
    const uint64_t next_ns = std::min(
        {conductor->next_deadline_ns(), listener->next_deadline_ns(), now_ns + kSleepCapNs});
    const uint64_t wait_ns = next_ns <= now_ns ? 0 : next_ns - now_ns;
    if (listener->wait(wait_ns)) housekeeping_ns = 0;
    idle->slept(clock.now_ns() - now_ns);
  }
  conductor->announce_sleep(false);
  waker.lower();  // the listener's epoll looks for edges: nothing is to be drained
}

void Daemon::State::turn() {
  progress.bump();
  const bool busy = conductor->step();
  const uint64_t now_ns = clock.now_ns();
  if (now_ns >= housekeeping_ns) housekeep(now_ns);
  if (busy)
    idle->worked();
  else if (idle->should_sleep(now_ns))
    sleep(now_ns);
  else
    look_out();
}

// A turn without work takes longer than a look at the rings, and so does a look at all queues: a
// request that comes meanwhile would wait for half of one.
void Daemon::State::look_out() {
  for (int look = 0; look < kLooksPerTurn && !conductor->has_work(); look += kRingLooks)
    for (int ring_look = 0; ring_look < kRingLooks && !conductor->has_records(); ++ring_look)
      relax_cpu();
}

bool Daemon::State::take_down() {
  listener->hang_up_all();
  const uint64_t until_ns = clock.now_ns() + kTakeDownNs;
  while (!(conductor->quiet() && chunks->idle()) && clock.now_ns() < until_ns) turn();
  const bool quiet = conductor->quiet() && chunks->idle();
  http.reset();
  if (quiet) {
    chunk_thread.reset();
    threads.clear();
    return true;
  }
  log_event(LogLevel::kError, "stopped_in_flight", {{"status", conductor->status_json()}});
  return false;
}

int Daemon::run() {
  State& s = *state_;
  s.started_ns = s.clock.now_ns();
  log_event(LogLevel::kInfo, "started",
            {{"epoch", s.epoch},
             {"socket", s.config.socket},
             {"pool", s.config.pool_name},
             {"pool_bytes", s.config.pool_bytes},
             {"store", s.store.store ? s.store.store->describe() : "none"},
             {"metrics_port", s.http ? s.http->port() : 0},
             {"copy_threads", s.config.copy_threads},
             {"digest", digest_variant()},
             {"predecessor", s.runtime_dir->predecessor_pid()}});
  sd_notify("READY=1\nSTATUS=serving");
  while (s.drain_until_ns == 0 || (!s.conductor->drained() && s.clock.now_ns() < s.drain_until_ns))
    s.turn();
  const bool drained = s.conductor->drained();
  const bool quiet = s.take_down();
  log_event(LogLevel::kInfo, "stopped", {{"drained", drained ? "yes" : "no"}});
  // Memory that a worker may still write must not be freed: the process ends with it instead.
  if (!quiet) {
    s.listener.reset();
    stop_log_thread();
    ::_exit(0);
  }
  return 0;
}

}  // namespace kvsidecar
