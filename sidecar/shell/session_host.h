// SPDX-License-Identifier: Apache-2.0
// What the listener asks of whoever owns the sessions: the conductor in the daemon (conductor.h
// says what each call means), a fake in tests. Called by the listener's thread only.
#pragma once
#include "sidecar/conductor/conductor.h"

namespace kvsidecar {

class SessionHost {
 public:
  virtual ~SessionHost() = default;
  virtual uint64_t next_session_number() = 0;
  virtual bool has_session_room(const Permissions& permissions) = 0;
  virtual void open_session(uint64_t session, OpenedSession&& opened) = 0;
  virtual bool offer_fd(uint64_t session, uint64_t token, UniqueFd fd) = 0;
  virtual void session_gone(uint64_t session, const char* reason) = 0;
  virtual bool session_alive(uint64_t session) = 0;
};

}  // namespace kvsidecar
