// SPDX-License-Identifier: Apache-2.0
// Everything a daemon is made of, in the order in which it is built; destroyed in reverse, so the
// threads end first. Private to daemon*.cc.
#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "sidecar/conductor/conductor.h"
#include "sidecar/device/host_device.h"
#include "sidecar/shell/chunk_opener.h"
#include "sidecar/shell/config.h"
#include "sidecar/shell/daemon.h"
#include "sidecar/shell/http.h"
#include "sidecar/shell/idle.h"
#include "sidecar/shell/listener.h"
#include "sidecar/shell/metrics.h"
#include "sidecar/shell/runtime_dir.h"
#include "sidecar/shell/state_dir.h"
#include "sidecar/shell/store_factory.h"

namespace kvsidecar {

// The conductor's events in the daemon's log.
class DaemonEventLog final : public EventLog {
 public:
  void event(const char* name, const std::string& fields) override;
};

class ConductorSessions final : public SessionHost {
 public:
  explicit ConductorSessions(Conductor& conductor) : conductor_(conductor) {}
  uint64_t next_session_number() override { return conductor_.next_session_number(); }
  bool has_session_room(const Permissions& p) override { return conductor_.has_session_room(p); }
  void open_session(uint64_t session, OpenedSession&& opened) override {
    conductor_.open_session(session, std::move(opened));
  }
  bool offer_fd(uint64_t session, uint64_t token, UniqueFd fd) override {
    return conductor_.offer_fd(session, token, std::move(fd));
  }
  void session_gone(uint64_t session, const char* reason) override {
    conductor_.session_gone(session, reason);
  }
  bool session_alive(uint64_t session) override { return conductor_.session_alive(session); }

 private:
  Conductor& conductor_;
};

class StateRecords final : public NamespaceRecords {
 public:
  explicit StateRecords(StateDir& dir) : dir_(dir) {}
  Result<uint64_t> save(const Hash128& id, Bytes encoded, uint64_t generation) override {
    return dir_.save_namespace(id, encoded, generation);
  }
  void forget(const Hash128& id) override { dir_.forget_namespace(id); }

 private:
  StateDir& dir_;
};

struct Daemon::State {
  Config config;
  Progress progress;
  Clock& clock = real_clock();
  FaultPoints& faults = no_faults();
  SystemRandom random;
  UniqueFd signals;

  std::optional<RuntimeDir> runtime_dir;
  std::optional<StateDir> state_dir;
  std::optional<StateRecords> records;
  uint64_t epoch = 0;

  Waker waker;  // the conductor's
  DaemonEventLog event_log;
  std::unique_ptr<HostDevice> device;
  std::vector<std::unique_ptr<CopyWorker>> copy_workers;
  std::unique_ptr<CopyWorker> inline_copy;
  std::vector<std::unique_ptr<HashWorker>> hash_workers;
  std::unique_ptr<Reaper> reaper, device_reaper, door_reaper, chunk_reaper;
  OpenedStore store;
  std::unique_ptr<HostPool> pool;
  std::unique_ptr<Conductor> conductor;
  std::unique_ptr<ConductorSessions> sessions;
  std::unique_ptr<Listener> listener;
  std::unique_ptr<ChunkOpener> chunks;
  Metrics metrics;
  std::unique_ptr<HttpServer> http;
  std::vector<std::unique_ptr<WorkerThread>> threads;
  std::unique_ptr<WorkerThread> chunk_thread;  // until the last chunk is in

  // The loop's.
  std::optional<IdlePolicy> idle;
  uint64_t started_ns = 0, housekeeping_ns = 0, snapshot_ns = 0, watchdog_ns = 0;
  uint64_t drain_until_ns = 0;  // 0: not draining
  uint32_t asked_by_parent = 0, asked_directly = 0;  // to end
  bool predecessor_told = false;
  bool reachable = true;  // at the last look

  // daemon_build.cc, in this order
  Status claim_directories();
  Status build_workers();
  Status build_conductor(ListeningSocket socket);
  Status start_http();
  void start_threads();

  // daemon.cc
  void turn();
  void housekeep(uint64_t now_ns);
  void sleep(uint64_t now_ns);
  void look_out();
  void read_signals();
  void tell_predecessor_gone(uint64_t now_ns);
  void leave_snapshot();
  bool take_down();  // false: something is still in flight, so nothing may be freed
};

}  // namespace kvsidecar
