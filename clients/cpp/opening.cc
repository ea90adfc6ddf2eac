// SPDX-License-Identifier: Apache-2.0
// Opening and closing a client, and what it tells about its connection.
#include <sys/epoll.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include "clients/cpp/client.h"
#include "clients/cpp/fork.h"

namespace kvsidecar::clientlib {
namespace {

// A request's deadline may not lie further ahead than the daemon's limit (600 s by default).
constexpr uint64_t kTimeoutMaxNs = 590'000'000'000;

std::chrono::steady_clock::time_point time_point(uint64_t monotonic) {
  // steady_clock is CLOCK_MONOTONIC on Linux.
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(monotonic));
}

Status watch_fd(int set, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  if (::epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) != 0 && errno != EEXIST)
    return os_error("epoll_ctl", errno);
  return {};
}

}  // namespace

Client::Client(Options options)
    : options_(std::move(options)), forks_(forks_so_far()), spin_(options_.spin_ns) {
  pause_ns_ = options_.reconnect_min_ns;
}

Client::~Client() = default;

bool Client::alive() const { return forks_ == forks_so_far(); }

uint64_t Client::deadline(uint64_t timeout_ns, uint64_t now_ns) const {
  const uint64_t asked = timeout_ns == 0 ? options_.default_timeout_ns : timeout_ns;
  return now_ns + std::min(asked, kTimeoutMaxNs);
}

void Client::log(int level, const std::string& text) const {
  if (options_.log != nullptr) options_.log(options_.log_context, level, text.c_str());
}

Status Client::open() {
  Result<UniqueFd> wake = make_eventfd();
  if (!wake.ok()) return wake.status();
  Result<UniqueFd> event = make_eventfd();
  if (!event.ok()) return event.status();
  event_set_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  if (!event_set_) return os_error("epoll_create1", errno);
  keeper_wake_ = wake.take();
  event_ = event.take();
  if (Status watched = watch_fd(event_set_.get(), event_.get()); !watched.ok()) return watched;
  const uint64_t until_ns = monotonic_ns() + options_.connect_timeout_ns;
  // The process's signals are for its own threads.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  keeper_ = std::thread([this] { keep(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  Lock lock(mutex_);
  const auto settled = [this] {
    if (core_.current && core_.current->ready) return true;
    return !refused_.ok() && !may_pass(refused_);
  };
  changed_.wait_until(lock, time_point(until_ns), settled);
  if ((core_.current && core_.current->ready) || options_.allow_disconnected) return {};
  Status why = refused_;
  if (why.ok())
    why = {Code::kUnavailable, "no daemon has answered at " + options_.socket_path + " within " +
                                   std::to_string(options_.connect_timeout_ns / 1'000'000) +
                                   " ms; is kvsidecard running?"};
  return why;
}

// One that has no time for a handshake just now is asked again, like one that isn't there.
bool Client::may_pass(const Status& refused) {
  return refused.code() == Code::kUnavailable || refused.code() == Code::kBusy;
}

bool Client::close(uint64_t wait_ns) {
  const uint64_t until_ns = monotonic_ns() + wait_ns;
  Lock lock(mutex_);
  bool settled = core_.give_up_all(monotonic_ns());
  while (!settled && monotonic_ns() < until_ns) {
    sleep(lock, std::min(until_ns, monotonic_ns() + 5'000'000));
    core_.tick(monotonic_ns());
    settled = core_.give_up_all(monotonic_ns());
  }
  stop_ = true;
  changed_.notify_all();
  lock.unlock();
  eventfd_signal(keeper_wake_.get());
  if (keeper_.joinable()) keeper_.join();
  if (!settled) {
    // Hang up; everything that the daemon may still write stays mapped.
    lock.lock();
    if (core_.current) core_.current->connection.socket.reset();
  }
  return settled;
}

int Client::event_fd() {
  Lock lock(mutex_);
  if (!event_wanted_) {
    event_wanted_ = true;
    if (core_.current && !core_.current->lost) {
      Link& link = *core_.current;
      (void)watch_fd(event_set_.get(), link.connection.share.notify.get());
      link.memory.cell_page().client_sleeps.fetch_or(2, std::memory_order_seq_cst);
    }
    if (!core_.events.empty()) eventfd_signal(event_.get());
  }
  return event_set_.get();
}

void Client::connection(kvs_connection& out) {
  Lock lock(mutex_);
  const bool ready = core_.current && core_.current->ready;
  out.connected = ready ? 1 : 0;
  out.daemon_pid = ready ? daemon_pid_ : 0;
  out.connects = connects_;
  out.epoch = epoch_;
  out.session = session_;
  std::memcpy(out.node, node_.data(), node_.size());
}

Status Client::wait_connected(uint64_t timeout_ns) {
  const uint64_t until_ns = deadline(timeout_ns);
  Lock lock(mutex_);
  const auto ready = [this] { return stop_ || (core_.current && core_.current->ready); };
  if (changed_.wait_until(lock, time_point(until_ns), ready) && !stop_) return {};
  return {Code::kUnavailable, refused_.ok() ? "not connected" : refused_.text()};
}

bool Client::take_turn(Lock& lock, uint64_t until_ns) {
  const auto turn = [this] { return stop_ || !turn_taken_; };
  if (!changed_.wait_until(lock, time_point(until_ns), turn) || stop_) return false;
  turn_taken_ = true;
  return true;
}

void Client::end_turn() {
  turn_taken_ = false;
  changed_.notify_all();
}

}  // namespace kvsidecar::clientlib
