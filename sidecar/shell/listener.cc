// SPDX-License-Identifier: Apache-2.0
#include "sidecar/shell/listener.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "sidecar/shell/log.h"

namespace kvsidecar {
namespace {

// What an epoll entry is about: the low bits of its data; the rest is the connection's number.
constexpr uint32_t kSocket = 0, kPidfd = 1, kKick = 2, kOther = 3, kKindBits = 2;
constexpr uint64_t kListening = 0;  // no connection has number 0

constexpr size_t kMessageBytesMax = 512;
constexpr int kMessagesPerTurn = 16;
constexpr int kAcceptsPerTurn = 16;
constexpr int kEventsPerTurn = 64;
constexpr uint64_t kSweepNs = 10'000'000;
constexpr uint64_t kAcceptPauseNs = 1'000'000'000;

// epoll_pwait2 where the kernel has it (5.11), for the sake of deadlines below a millisecond.
int wait_for_events(int epoll, std::span<epoll_event> events, uint64_t timeout_ns) {
  const auto most = static_cast<int>(events.size());
  const timespec timeout{static_cast<time_t>(timeout_ns / 1'000'000'000),
                         static_cast<long>(timeout_ns % 1'000'000'000)};
  const int count = ::epoll_pwait2(epoll, events.data(), most, &timeout, nullptr);
  if (count >= 0 || errno != ENOSYS) return count;
  const uint64_t ms = std::min<uint64_t>((timeout_ns + 999'999) / 1'000'000, 1000);
  return ::epoll_wait(epoll, events.data(), most, static_cast<int>(ms));
}

// A client's name goes into logs and JSON: what could be misread there is replaced.
std::string printable(std::string_view name) {
  std::string out(name);
  for (char& c : out)
    if (c < 0x20 || c > 0x7e || c == '"' || c == '\\') c = '?';
  return out;
}

}  // namespace

// What the reaper makes for one connection. Shared with the errand: the connection may be gone
// before it comes back.
struct Listener::ShareJob {
  Result<SessionShare> share = Status(Code::kInternal, "not made");
  UniqueFd pidfd;
  bool peer_gone = false;
};

Listener::Listener(ListeningSocket socket, const ListenerOptions& options, AllowRules rules,
                   SessionHost& host, Reaper& reaper, Clock& clock)
    : socket_(std::move(socket)),
      options_(options),
      rules_(std::move(rules)),
      host_(host),
      reaper_(reaper),
      clock_(clock),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  KV_CHECK(epoll_);
  Result<UniqueFd> own = open_pidfd(::getpid());
  if (own) own_pidfd_ = own.take();
  KV_CHECK(watch(socket_.fd(), kListening, kSocket));
}

Listener::~Listener() = default;

// Eventfds are watched for edges: then nobody has to drain them.
bool Listener::watch(int fd, uint64_t number, uint32_t kind) {
  epoll_event event{};
  event.events = kind == kKick || kind == kOther ? EPOLLIN | EPOLLET : EPOLLIN;
  event.data.u64 = (number << kKindBits) | kind;
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void Listener::set_accepting(bool accepting) {
  if (accepting == accepting_) return;
  epoll_event event{};
  event.events = accepting ? EPOLLIN : 0u;
  event.data.u64 = kListening;
  KV_CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, socket_.fd(), &event) == 0);
  accepting_ = accepting;
}

void Listener::also_wait_for(int fd) { KV_CHECK(watch(fd, kListening, kOther)); }

Listener::Turn Listener::turn(uint64_t timeout_ns) {
  Turn turn;
  std::unique_ptr<Errand> errand;
  while (reaper_.poll(errand)) {
    errand->finish();
    turn.busy = true;
  }
  epoll_event events[kEventsPerTurn];
  const int count = wait_for_events(epoll_.get(), events, turn.busy ? 0 : timeout_ns);
  bool knocked = false;
  for (int i = 0; i < count; ++i) {
    const uint64_t number = events[i].data.u64 >> kKindBits;
    const auto kind = static_cast<uint32_t>(events[i].data.u64 & ((1u << kKindBits) - 1));
    if (kind == kOther) turn.other = true;
    if (kind == kOther || kind == kKick) continue;  // it was to end the sleep, and has
    if (number == kListening) {
      knocked = true;
      continue;
    }
    const auto found = connections_.find(number);  // an earlier event may have closed it
    if (found != connections_.end()) handle(*found->second, kind);
  }
  if (knocked) accept_some();  // when those that have hung up are out of the way
  const uint64_t now_ns = clock_.now_ns();
  end_overdue(now_ns);
  sweep_ended(now_ns);
  set_accepting(half_open_ < options_.half_open_max && now_ns >= accept_again_ns_);
  turn.busy |= count > 0;
  return turn;
}

void Listener::accept_some() {
  for (int i = 0; i < kAcceptsPerTurn && half_open_ < options_.half_open_max; ++i) {
    UniqueFd fd(::accept4(socket_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno != EAGAIN) {
        // Out of descriptors or memory: looking again at once would spin.
        accept_again_ns_ = clock_.now_ns() + kAcceptPauseNs;
        log_event(LogLevel::kError, "accept_failed", {{"error", std::strerror(errno)}});
      }
      return;
    }
    auto connection = std::make_unique<Connection>();
    connection->number = ++last_number_;
    connection->deadline_ns = clock_.now_ns() + options_.step_timeout_ns;
    Result<PeerIdentity> peer = peer_identity(fd.get());
    if (!peer || !watch(fd.get(), connection->number, kSocket)) {
      give_back(std::move(fd), {});
      continue;
    }
    connection->peer = peer.take();
    connection->socket = std::move(fd);
    const bool too_many = half_open_of(connection->peer.uid) >= options_.half_open_per_uid;
    ++half_open_;
    const auto added = connections_.emplace(connection->number, std::move(connection)).first;
    if (too_many)
      refuse(*added->second, {Code::kBusy,
                              "too many handshakes of this user are under way; connect "
                              "again"});
  }
}

void Listener::handle(Connection& connection, uint32_t kind) {
  if (kind == kPidfd)
    close(connection, "process_ended");
  else
    read_socket(connection);
}

void Listener::read_socket(Connection& connection) {
  const uint64_t number = connection.number;
  for (int i = 0; i < kMessagesPerTurn; ++i) {
    alignas(8) std::byte buffer[kMessageBytesMax];
    std::vector<UniqueFd> fds;
    const size_t fds_max = connection.stage == Stage::kOpen ? 1 : 0;
    const Result<size_t> got = receive_message(connection.socket.get(), buffer, fds, fds_max);
    if (!got) {
      if (got.status().code() != Code::kBusy) close(connection, "bad_message");
      return;
    }
    if (*got == 0) return close(connection, "hung_up");
    if (!read_message(connection, std::span(buffer).first(*got), fds)) return;
    if (connections_.find(number) == connections_.end()) return;
  }
}

// False when nothing more is to be read now.
bool Listener::read_message(Connection& connection, std::span<const std::byte> message,
                            std::vector<UniqueFd>& fds) {
  if (connection.stage == Stage::kHello) return on_hello(connection, message);
  if (connection.stage == Stage::kReady) {
    Ready ready{};
    if (message.size() == sizeof ready) std::memcpy(&ready, message.data(), sizeof ready);
    if (ready.magic == kReadyMagic) return on_ready(connection);
  }
  if (connection.stage == Stage::kOpen && message.size() == sizeof(FdMessage) && fds.size() == 1) {
    FdMessage offered{};
    std::memcpy(&offered, message.data(), sizeof offered);
    if (offered.magic == kFdMagic &&
        host_.offer_fd(connection.session, offered.token, std::move(fds[0])))
      return true;
  }
  discard_fds(std::move(fds));
  close(connection, "bad_message");
  return false;
}

uint32_t Listener::half_open_of(uint32_t uid) const {
  return static_cast<uint32_t>(
      std::count_if(connections_.begin(), connections_.end(), [&](const auto& entry) {
        return entry.second->stage != Stage::kOpen && entry.second->peer.uid == uid;
      }));
}

bool Listener::on_hello(Connection& connection, std::span<const std::byte> message) {
  Hello hello{};
  Status status = check_hello(message, hello);
  if (status.ok() && draining_)
    status = {Code::kDraining, "kvsidecard is shutting down; connect again later"};
  if (status.ok()) {
    Result<Permissions> found = rules_.find(connection.peer);
    if (found)
      connection.permissions = found.take();
    else
      status = found.status();
  }
  if (status.ok() && !host_.has_session_room(connection.permissions))
    status = {Code::kOverQuota,
              "no session is left: limits.sessions_max, or sessions_max of the "
              "[[allow]] entry, is reached; close one or raise it"};
  if (!status.ok()) {
    refuse(connection, status);
    return false;
  }
  connection.name = printable({hello.name, strnlen(hello.name, sizeof hello.name)});
  connection.session = host_.next_session_number();
  connection.stage = Stage::kSharing;
  auto job = std::make_shared<ShareJob>();
  // The socket is borrowed by number only: the connection may be closed while the errand is away.
  const int socket = ::fcntl(connection.socket.get(), F_DUPFD_CLOEXEC, 0);
  auto run = [job, socket = std::make_shared<UniqueFd>(socket), pid = connection.peer.pid,
              epoch = options_.epoch, session = connection.session] {
    job->share = make_session_share(kDefaultGeometry, epoch, session);
    if (pid <= 0) return;  // not visible from here: the socket alone tells the end
    Result<UniqueFd> pidfd = peer_pidfd(socket->get(), pid);
    job->peer_gone = !pidfd;
    if (pidfd) job->pidfd = pidfd.take();
    socket->reset();
  };
  auto finish = [this, job, number = connection.number] { share_arrived(number, job); };
  if (!reaper_.submit(make_errand(std::move(run), std::move(finish))))
    refuse(connection, {Code::kBusy, "too many handshakes are under way; connect again"});
  return false;  // READY comes after WELCOME
}

void Listener::share_arrived(uint64_t number, const std::shared_ptr<ShareJob>& job) {
  const auto found = connections_.find(number);
  if (found == connections_.end()) {
    if (job->share) give_back({}, job->share.take());
    return;
  }
  Connection& connection = *found->second;
  if (job->peer_gone) return close(connection, "process_ended");
  if (!job->share) return refuse(connection, job->share.status());
  connection.share = job->share.take();
  connection.pidfd = std::move(job->pidfd);
  connection.stage = Stage::kReady;
  connection.deadline_ns = clock_.now_ns() + options_.step_timeout_ns;
  if (connection.pidfd && !watch(connection.pidfd.get(), number, kPidfd))
    return close(connection, "out_of_memory");
  const Status sent = send_welcome(connection.socket.get(), connection.share, options_.epoch,
                                   connection.session, options_.node, own_pidfd_.get());
  if (!sent.ok()) close(connection, "welcome_failed");
}

bool Listener::on_ready(Connection& connection) {
  // The room may have gone since HELLO; and the kick is kept as a duplicate, because closing the
  // session's own would not end an epoll entry that the client still shares.
  connection.kick.reset(::fcntl(connection.share.kick.get(), F_DUPFD_CLOEXEC, 0));
  if (!host_.has_session_room(connection.permissions) || !connection.kick ||
      !watch(connection.kick.get(), connection.number, kKick)) {
    close(connection, "no_room");
    return false;
  }
  connection.stage = Stage::kOpen;
  --half_open_;
  log_event(LogLevel::kInfo, "session_opened",
            {{"session", connection.session},
             {"pid", connection.peer.pid},
             {"uid", connection.peer.uid},
             {"name", connection.name}});
  OpenedSession opened;
  opened.share = std::move(connection.share);
  opened.permissions = connection.permissions;
  opened.name = connection.name;
  opened.uid = connection.peer.uid;
  opened.pid = connection.peer.pid;
  host_.open_session(connection.session, std::move(opened));
  return true;
}

void Listener::refuse(Connection& connection, const Status& status) {
  send_refusal(connection.socket.get(), status);
  log_event(LogLevel::kWarning, "session_refused",
            {{"pid", connection.peer.pid},
             {"uid", connection.peer.uid},
             {"status", code_name(status.code())},
             {"text", status.text()}});
  close(connection, "refused");
}

void Listener::close(Connection& connection, const char* reason) {
  const bool open = connection.stage == Stage::kOpen;
  if (!open) --half_open_;
  if (open && host_.session_alive(connection.session))
    host_.session_gone(connection.session, reason);
  // The end of a session is the host's to tell.
  if (!open && std::strcmp(reason, "refused") != 0)
    log_event(LogLevel::kWarning, "handshake_ended",
              {{"pid", connection.peer.pid},
               {"uid", connection.peer.uid},
               {"reason", reason},
               {"name", connection.name}});
  for (const UniqueFd* fd : {&connection.socket, &connection.pidfd, &connection.kick})
    if (*fd) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd->get(), nullptr);
  // Somebody else may hold a duplicate of the socket; the peer is to see the end at once.
  ::shutdown(connection.socket.get(), SHUT_RDWR);
  give_back(std::move(connection.socket), std::move(connection.share));
  connections_.erase(connection.number);
}

// On the reaper: what the peer has sent and nobody has read may be much, and so is a session's
// memory.
void Listener::give_back(UniqueFd fd, SessionShare memory) {
  auto socket = std::make_shared<UniqueFd>(std::move(fd));
  auto share = std::make_shared<SessionShare>(std::move(memory));
  auto errand = make_errand(
      [socket, share] {
        close_peer_socket(std::move(*socket));
        *share = SessionShare{};
      },
      nullptr);
  if (!reaper_.submit(std::move(errand))) errand->run();
}

void Listener::end_overdue(uint64_t now_ns) {
  if (half_open_ == 0) return;
  std::vector<uint64_t> overdue;
  for (const auto& [number, connection] : connections_)
    if (connection->stage != Stage::kOpen && connection->deadline_ns <= now_ns)
      overdue.push_back(number);
  for (const uint64_t number : overdue) close(*connections_.at(number), "handshake_too_slow");
}

void Listener::sweep_ended(uint64_t now_ns) {
  if (now_ns < next_sweep_ns_) return;
  next_sweep_ns_ = now_ns + kSweepNs;
  std::vector<uint64_t> ended;
  for (const auto& [number, connection] : connections_)
    if (connection->stage == Stage::kOpen && !host_.session_alive(connection->session))
      ended.push_back(number);
  for (const uint64_t number : ended) close(*connections_.at(number), "ended_by_daemon");
}

uint64_t Listener::next_deadline_ns() const {
  uint64_t next = accepting_ || accept_again_ns_ == 0 ? ~0ull : accept_again_ns_;
  if (half_open_ == 0) return next;
  for (const auto& [number, connection] : connections_)
    if (connection->stage != Stage::kOpen) next = std::min(next, connection->deadline_ns);
  return next;
}

void Listener::drain() { draining_ = true; }

void Listener::hang_up_all() {
  while (!connections_.empty()) close(*connections_.begin()->second, "daemon_ends");
}

}  // namespace kvsidecar
