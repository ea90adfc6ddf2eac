// SPDX-License-Identifier: Apache-2.0
// Both ends of the handshake (handshake.h) over a connected socket. The client's end blocks up to a
// deadline; the daemon's never blocks: parse_* look at one received message.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "ipc/handshake.h"
#include "ipc/os.h"
#include "ipc/ring.h"

namespace kvsidecar {

// The memory of one session as its creator or receiver holds it: mappings and fds.
struct SessionShare {
  Geometry geometry{};
  MappedMemory submission, completion, cells;
  UniqueFd submission_fd, completion_fd, cells_fd, kick, notify, daemon_pid;
  SessionMemory memory() const;
};

// Daemon (on a reaper: allocates). Creates, fills in and seals the memfds and eventfds of a
// session.
Result<SessionShare> make_session_share(const Geometry& geometry, uint64_t epoch, uint64_t session);
// Daemon. kInvalid / kUnsupportedVersion with the sentence that goes into the refusal.
Status check_hello(std::span<const std::byte> message, Hello& hello);
Status send_welcome(int socket, const SessionShare& share, uint64_t epoch, uint64_t session,
                    const std::array<std::byte, 16>& node, int daemon_pidfd);
void send_refusal(int socket, const Status& status);

// Client. Connects to the path, says HELLO, maps and checks what comes, says READY. kUnavailable
// when nobody answers before deadline_ns (CLOCK_MONOTONIC), else the daemon's own refusal.
struct Connection {
  UniqueFd socket;
  SessionShare share;
  uint64_t epoch = 0, session = 0;
  std::array<std::byte, 16> node{};
  int daemon_pid = 0;
};
Result<Connection> connect_to_daemon(const std::string& path, const std::string& name,
                                     uint64_t deadline_ns);
// Client: passes one fd under a token.
Status send_region_fd(int socket, uint64_t token, int fd);

}  // namespace kvsidecar
