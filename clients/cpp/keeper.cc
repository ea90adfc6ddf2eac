// SPDX-License-Identifier: Apache-2.0
// The keeper: one thread a client. It connects, watches the daemon's pidfd and the socket, connects
// again with a growing pause, makes again what the client has made, and turns the core when nobody
// else does.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>

#include "clients/cpp/client.h"

namespace kvsidecar::clientlib {
namespace {

constexpr uint64_t kAttemptNs = 500'000'000;   // for one handshake
constexpr uint64_t kReplayNs = 5'000'000'000;  // for each registration after a reconnect
constexpr uint64_t kIdleNs = 1'000'000'000;
constexpr uint64_t kBusyNs = 50'000'000;
constexpr uint64_t kFeedNs = 5'000'000;
constexpr uint64_t kStableNs = 100'000'000;  // a session that lived that long was a good one

bool hung_up(int socket) {
  std::byte nothing;
  const ssize_t got = ::recv(socket, &nothing, sizeof nothing, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

}  // namespace

void Client::keep() {
  Lock lock(mutex_);
  while (!stop_) keep_once(lock);
}

void Client::keep_once(Lock& lock) {
  const bool wanted = !core_.current && (options_.reconnect || connects_ == 0);
  // A daemon that hangs up at once isn't asked again at once.
  if (wanted && (std::exchange(hold_off_, false) || !connect(lock)) && !stop_) {
    watch(lock);
    pause_ns_ = std::min(pause_ns_ * 2, options_.reconnect_max_ns);
    return;
  }
  if (core_.current && (!core_.current->ready || replay_again_)) replay(lock, core_.current);
  if (!stop_) watch(lock);
}

bool Client::connect(Lock& lock) {
  lock.unlock();
  Result<Connection> made =
      connect_to_daemon(options_.socket_path, options_.name, monotonic_ns() + kAttemptNs);
  lock.lock();
  if (!made.ok()) {
    if (refused_.text() != made.status().text())
      log(may_pass(made.status()) ? KVS_LOG_INFO : KVS_LOG_WARNING,
          "not connected: " + made.status().text());
    refused_ = made.status();
    changed_.notify_all();
    return false;
  }
  auto link = std::make_shared<Link>(made.take());
  const Geometry& geometry = link->memory.geometry;
  for (uint32_t word = 0; word < core_.objects.fence_values.size() && word < geometry.fences;
       ++word)
    link->memory.fence(word)->store(core_.objects.fence_values[word], std::memory_order_release);
  if (event_wanted_) {
    epoll_event event{};
    event.events = EPOLLIN;
    (void)::epoll_ctl(event_set_.get(), EPOLL_CTL_ADD, link->connection.share.notify.get(), &event);
    link->memory.cell_page().client_sleeps.fetch_or(2, std::memory_order_seq_cst);
  }
  connected_ns_ = monotonic_ns();
  epoch_ = link->connection.epoch;
  session_ = link->connection.session;
  node_ = link->connection.node;
  daemon_pid_ = link->connection.daemon_pid;
  refused_ = {};
  core_.current = std::move(link);
  return true;
}

// Makes regions, layouts and namespaces again. The link is ready when each has been answered: what
// the daemon refuses keeps its reason, and operations on it end with that. `link` by value: the
// current one is let go when the daemon dies meanwhile.
void Client::replay(Lock& lock, std::shared_ptr<Link> link) {
  if (!take_turn(lock, monotonic_ns() + kReplayNs)) return;
  replay_again_ = false;  // what comes while this goes on asks for another
  const auto make = [&](auto& objects, auto&& one) {
    std::vector<uint64_t> ids;
    for (const auto& [id, object] : objects)
      if (object.handle == 0 && object.refused.ok()) ids.push_back(id);
    for (const uint64_t id : ids) {
      const auto found = objects.find(id);
      if (link->lost || stop_ || found == objects.end()) return;
      const Status status = one(found->second);
      if (status.ok()) continue;
      if (status.code() == Code::kUnavailable || status.code() == Code::kTimeout) {
        replay_again_ = true;
        continue;
      }
      found->second.refused = status;
      log(KVS_LOG_WARNING, "refused after a reconnect: " + status.text());
    }
  };
  const auto until = [] { return monotonic_ns() + kReplayNs; };
  make(core_.objects.regions,
       [&](RegionObject& region) { return make_region(lock, region, until()); });
  make(core_.objects.layouts,
       [&](LayoutObject& layout) { return make_layout(lock, layout, until()); });
  make(core_.objects.namespaces,
       [&](NamespaceObject& space) { return make_namespace(lock, space, until()); });
  end_turn();
  if (link->lost || stop_ || link->ready) return;
  link->ready = true;
  ++connects_;
  if (connects_ > 1) log(KVS_LOG_INFO, "connected again to " + options_.socket_path);
  changed_.notify_all();
}

uint64_t Client::keeper_pause_ns(uint64_t now_ns) const {
  uint64_t pause_ns = core_.operations() > 0 || !core_.fading.empty() ? kBusyNs : kIdleNs;
  if (core_.feeding()) pause_ns = kFeedNs;
  if (replay_again_) pause_ns = std::min(pause_ns, options_.reconnect_max_ns);
  if (!core_.current && (options_.reconnect || connects_ == 0))
    pause_ns = std::min(pause_ns, pause_ns_);
  const uint64_t next_ns = core_.next_deadline_ns();
  if (next_ns != UINT64_MAX) pause_ns = std::min(pause_ns, next_ns > now_ns ? next_ns - now_ns : 0);
  return pause_ns;
}

// Sleeps on the lives of the daemon (and of earlier ones that still hold something), then turns.
void Client::watch(Lock& lock) {
  std::vector<std::shared_ptr<Link>> links = core_.fading;
  if (core_.current) links.push_back(core_.current);
  std::vector<pollfd> fds{{keeper_wake_.get(), POLLIN, 0}};
  for (const std::shared_ptr<Link>& link : links) {
    fds.push_back({link->dead ? -1 : link->connection.share.daemon_pid.get(), POLLIN, 0});
    fds.push_back({link->lost ? -1 : link->connection.socket.get(), POLLIN, 0});
  }
  const uint64_t now_ns = monotonic_ns();
  const uint64_t pause_ns = keeper_pause_ns(now_ns);
  keeper_until_ns_ = now_ns + pause_ns;
  lock.unlock();
  timespec pause{static_cast<time_t>(pause_ns / 1'000'000'000),
                 static_cast<long>(pause_ns % 1'000'000'000)};
  (void)::ppoll(fds.data(), fds.size(), &pause, nullptr);
  eventfd_drain(keeper_wake_.get());
  lock.lock();
  keeper_until_ns_ = 0;
  for (size_t i = 0; i < links.size(); ++i)
    check_life(links[i], fds[2 + 2 * i].revents != 0 && !links[i]->lost &&
                             hung_up(links[i]->connection.socket.get()));
  core_.tick(monotonic_ns());
  signal_changes();
}

void Client::check_life(const std::shared_ptr<Link>& link, bool gone) {
  if (link->dead) return;
  const bool dead = pidfd_exited(link->connection.share.daemon_pid.get());
  if (!dead && !gone) return;
  const bool was_current = link == core_.current;
  if (was_current && event_wanted_)
    (void)::epoll_ctl(event_set_.get(), EPOLL_CTL_DEL, link->connection.share.notify.get(),
                      nullptr);
  if (was_current) {
    hold_off_ = monotonic_ns() - connected_ns_ < kStableNs;
    if (!hold_off_) pause_ns_ = options_.reconnect_min_ns;
    log(KVS_LOG_WARNING, dead ? "the daemon has died" : "the daemon has ended the session");
    futex_wake(link->memory.info().doorbell);
  }
  core_.lose(link, dead, monotonic_ns());
  signal_changes();
  if (was_current) changed_.notify_all();
}

void Client::wake_keeper() { eventfd_signal(keeper_wake_.get()); }

}  // namespace kvsidecar::clientlib
