// SPDX-License-Identifier: Apache-2.0
// The conductor: the one thread that owns all state (sessions, namespaces, index, host pool slots,
// leases, queues). It polls rings and completions; it never blocks, never touches page bytes (but
// for one copy step of at most Limits::inline_copy_bytes), never calls a driver, the store or the
// network. Everything here is to be called by the thread that turns step(), unless said otherwise.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "ipc/handshake_io.h"
#include "sidecar/conductor/counters.h"
#include "sidecar/device/copy_worker.h"
#include "sidecar/device/hash_worker.h"
#include "sidecar/errand.h"
#include "sidecar/limits.h"
#include "sidecar/pool/host_pool.h"
#include "sidecar/store/store.h"

namespace kvsidecar {

// What must survive the daemon: a namespace's canonical form and its generation. Blocking; called
// on a reaper. A generation is never replaced by a lower one.
class NamespaceRecords {
 public:
  virtual ~NamespaceRecords() = default;
  // Returns the generation on record then: the higher of this one and what was there.
  virtual Result<uint64_t> save(const Hash128& id, Bytes encoded, uint64_t generation) = 0;
  // Removes the record of a namespace that was never cleared; leaves any other.
  virtual void forget(const Hash128& id) = 0;
};

// What the conductor works with; none of it is owned, all of it outlives the conductor.
struct Parts {
  Clock* clock = nullptr;
  Random* random = nullptr;
  Device* device = nullptr;
  std::vector<CopyWorker*> copy_workers;  // turned by threads, or by the simulator
  CopyWorker* inline_copy = nullptr;      // turned by the conductor itself; may be null
  std::vector<HashWorker*> hash_workers;  // at least one
  Reaper* reaper = nullptr;               // whatever may hang on the host's side
  Reaper* device_reaper = nullptr;        // import, echo, close
  Store* store = nullptr;                 // null = no store
  NamespaceRecords* namespaces = nullptr;
  HostPool* pool = nullptr;
};

struct OpenedSession {
  SessionShare share;
  Permissions permissions;
  std::string name;  // for logs
  uint32_t uid = 0;
  int pid = 0;
};

// Where the conductor reports what an operator should see; implemented over shell/log.
class EventLog {
 public:
  virtual ~EventLog() = default;
  virtual void event(const char* name, const std::string& fields) = 0;  // fields: "k=v k=v"
};

// For metrics and /readyz, taken from time to time.
struct Gauges {
  HostPool::Usage pool;
  uint64_t pages_indexed = 0, index_bytes = 0, sessions = 0, leases = 0, lease_pages = 0;
  uint64_t operations = 0, fillings = 0, fetches = 0, write_behind_bytes = 0,
           write_behind_pages = 0;
  uint64_t store_bytes = 0, store_capacity_bytes = 0, segments = 0, namespaces = 0, groups = 0;
  bool scanned = false, draining = false;
};

class Conductor {
 public:
  Conductor(const Parts& parts, const Limits& limits, uint64_t epoch, EventLog& log);
  ~Conductor();

  bool step();      // one turn; true when it did something
  bool has_work();  // the second look before sleeping
  bool has_records() const;  // of it the part that costs least
  // Sets or clears `daemon_sleeps` of every session; then look at has_work() once more and wait for
  // kick fds.
  void announce_sleep(bool sleeps);
  uint64_t next_deadline_ns();  // when it must be turned though nothing arrives; UINT64_MAX = never

  // The listener.
  uint64_t next_session_number();  // unique in this epoch; make_session_share wants it
  bool has_session_room(const Permissions&) const;
  void open_session(uint64_t session, OpenedSession&& opened);
  bool offer_fd(uint64_t session, uint64_t token, UniqueFd fd);  // false: too many fds wait
  void session_gone(uint64_t session, const char* reason);
  bool session_alive(uint64_t session) const;  // false: ended here (hostile record); hang up

  // Start: before the first session, or while serving (a chunk may come late).
  void restore_namespace(Bytes encoded, uint64_t generation);
  void add_chunk(std::span<std::byte> memory, bool adopt);
  void predecessor_gone();  // its copies and I/O can't land any more: quarantined slots are freed
  void scan_store();

  void drain();
  bool drained() const;  // nothing in flight, nothing queued for the store
  // Waits for nothing: true once no worker holds anything of the conductor's; then it may be
  // destroyed.
  bool quiet() const;

  const Counters& counters() const;
  Gauges gauges() const;
  // JSON, as `kvsidecar status`, for a fatal log or a test.
  std::string status_json() const;
  const struct World& world() const { return *world_; }  // for tests' invariants

 private:
  std::unique_ptr<struct World> world_;
};

}  // namespace kvsidecar
