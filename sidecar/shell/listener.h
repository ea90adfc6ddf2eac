// SPDX-License-Identifier: Apache-2.0
// The door: accepts connections, leads each through the handshake (ipc/handshake.h), hands sessions
// to their host, passes on region fds, and watches pidfds and sockets for the end. Everything is
// non-blocking over one epoll and runs in the conductor's thread; a session's memory is made on the
// reaper. A peer that dies, stalls or talks nonsense at any step costs only its own connection.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <unordered_map>

#include "sidecar/env.h"
#include "sidecar/errand.h"
#include "sidecar/shell/allow_rules.h"
#include "sidecar/shell/listening_socket.h"
#include "sidecar/shell/session_host.h"

namespace kvsidecar {

struct ListenerOptions {
  uint64_t epoch = 0;
  std::array<std::byte, 16> node{};
  uint64_t step_timeout_ns = 5'000'000'000;  // for HELLO, and again for READY
  uint32_t half_open_max = 64;               // beyond it connections wait in the backlog
  uint32_t half_open_per_uid = 16;           // beyond it a connection is refused
};

class Listener {
 public:
  // `reaper` is turned elsewhere and polled here only. All outlive the listener.
  Listener(ListeningSocket socket, const ListenerOptions& options, AllowRules rules,
           SessionHost& host, Reaper& reaper, Clock& clock);
  ~Listener();

  bool step() { return turn(0).busy; }     // takes what has arrived; true when there was something
  // Sleeps until there is something, or so long; then takes it. True when an fd of also_wait_for
  // was among it.
  bool wait(uint64_t timeout_ns) { return turn(timeout_ns).other; }
  void also_wait_for(int fd);              // at each new event of it; it outlives the listener
  int fd() const { return epoll_.get(); }  // readable when step() would find something
  bool reachable() const { return socket_.reachable(); }
  uint64_t next_deadline_ns() const;       // of half-open connections; UINT64_MAX = none
  void drain();                            // from now on HELLO is answered with DRAINING
  void hang_up_all();                      // end of the daemon: closes every connection
  size_t half_open() const { return half_open_; }
  size_t connections() const { return connections_.size(); }

 private:
  enum class Stage : uint8_t { kHello, kSharing, kReady, kOpen };
  struct ShareJob;
  struct Connection {
    uint64_t number = 0;
    Stage stage = Stage::kHello;
    UniqueFd socket, pidfd, kick;
    PeerIdentity peer{};
    Permissions permissions;
    SessionShare share;
    std::string name;
    uint64_t session = 0, deadline_ns = 0;
  };

  struct Turn {
    bool busy = false, other = false;
  };
  Turn turn(uint64_t timeout_ns);
  void accept_some();
  void give_back(UniqueFd fd, SessionShare memory);
  void set_accepting(bool accepting);
  void handle(Connection& connection, uint32_t kind);
  void read_socket(Connection& connection);
  bool read_message(Connection& connection, std::span<const std::byte> message,
                    std::vector<UniqueFd>& fds);
  bool on_hello(Connection& connection, std::span<const std::byte> message);
  void share_arrived(uint64_t number, const std::shared_ptr<ShareJob>& job);
  bool on_ready(Connection& connection);
  void refuse(Connection& connection, const Status& status);
  void close(Connection& connection, const char* reason);  // `connection` is gone afterwards
  void end_overdue(uint64_t now_ns);
  void sweep_ended(uint64_t now_ns);
  bool watch(int fd, uint64_t number, uint32_t kind);
  uint32_t half_open_of(uint32_t uid) const;

  ListeningSocket socket_;
  const ListenerOptions options_;
  const AllowRules rules_;
  SessionHost& host_;
  Reaper& reaper_;
  Clock& clock_;
  UniqueFd epoll_, own_pidfd_;
  std::unordered_map<uint64_t, std::unique_ptr<Connection>> connections_;  // by number
  uint64_t last_number_ = 0, next_sweep_ns_ = 0, accept_again_ns_ = 0;
  size_t half_open_ = 0;
  bool accepting_ = true, draining_ = false;
};

}  // namespace kvsidecar
