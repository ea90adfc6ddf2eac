// SPDX-License-Identifier: Apache-2.0
// A client: one mutex over a Core, a keeper thread, waiting, and the objects that are made again
// after a reconnect. Any thread; the mutex is never held while waiting or connecting.
//   opening.cc  open, close, facts   keeper.cc   the keeper: life of the daemon, reconnect, replay
//   waiting.cc  poll, wait           control.cc  registrations: one at a time, each acknowledged
//   regions.cc  memory and layouts   requests.cc from C arguments to operations
#pragma once
#include <condition_variable>
#include <mutex>
#include <thread>

#include "clients/cpp/core.h"
#include "clients/cpp/errors.h"
#include "ipc/adaptive_spin.h"

namespace kvsidecar::clientlib {

struct Options {
  std::string socket_path, name;
  uint64_t connect_timeout_ns = 0, default_timeout_ns = 0, spin_ns = 0;
  bool spin_while_it_pays = false;  // else always
  uint64_t reconnect_min_ns = 0, reconnect_max_ns = 0, staging_bytes = 0;
  uint32_t operations_max = 0;
  bool allow_disconnected = false, reconnect = true;
  kvs_log_fn log = nullptr;
  void* log_context = nullptr;
};

// What a registration was answered.
struct Answer {
  Status status;
  uint64_t handle = 0, value = 0;
};

class Client {
 public:
  using Lock = std::unique_lock<std::mutex>;

  explicit Client(Options options);
  ~Client();
  Status open();
  // False: a get is still being copied; the caller must leak this object.
  bool close(uint64_t wait_ns);
  bool alive() const;  // false in a forked child
  int event_fd();
  void connection(kvs_connection& out);
  Status wait_connected(uint64_t timeout_ns);

  Status create_memory(uint64_t bytes, uint64_t timeout_ns, kvs_memory& memory, uint64_t& id);
  Status register_fd(int fd, uint64_t offset, uint64_t bytes, void* base, uint64_t echo_offset,
                     uint64_t timeout_ns, uint64_t& id);
  Status register_staged(void* base, uint64_t bytes, uint64_t timeout_ns, uint64_t& id);
  Status unregister_region(uint64_t id, uint64_t timeout_ns);
  Status register_layout(LayoutObject layout, uint64_t timeout_ns, uint64_t& id);
  Status unregister_layout(uint64_t id, uint64_t timeout_ns);
  Status attach(NamespaceObject space, uint64_t timeout_ns, uint64_t& id);
  Status detach(uint64_t id);
  Status namespace_facts(uint64_t id, uint8_t out[16], uint64_t& generation);
  Status create_fence(uint64_t& fence);
  Status signal_fence(uint64_t fence, uint64_t value);
  Status destroy_fence(uint64_t fence);

  Status lookup(const kvs_lookup_args& args, uint64_t& id);
  Status transfer(RecordType type, const kvs_transfer_args& args, uint64_t& id);
  Status remove(uint64_t space, const kvs_keys& keys, uint64_t timeout_ns, uint64_t& id);
  Status release(uint64_t lease, uint64_t timeout_ns, uint64_t& id);
  Status noop(uint64_t timeout_ns, uint64_t& id);
  Status clear(uint64_t space, const uint8_t* namespace_id, uint64_t timeout_ns, uint64_t& id);
  Status stat(uint32_t what, uint64_t timeout_ns, uint64_t& id);
  Status why(const uint8_t* namespace_id, Bytes key, uint64_t timeout_ns, uint64_t& id);

  size_t poll(kvs_event* events, size_t capacity);
  Status wait(std::span<const uint64_t> ids, uint64_t timeout_ns);
  Status result(uint64_t id, kvs_result& out);
  Status progress(uint64_t id, uint64_t& runs);
  Status cancel(uint64_t id, uint8_t* free_items);
  Status revoke(uint64_t id, std::span<const uint32_t> indices, uint8_t* free_items);
  Status free_op(uint64_t id);

 private:
  uint64_t deadline(uint64_t timeout_ns, uint64_t now_ns = monotonic_ns()) const;
  void log(int level, const std::string& text) const;
  void signal_changes();  // locked: wakes waiters and the event fd after operations have ended
  void wake_keeper();

  void keep();  // the keeper's thread
  void keep_once(Lock& lock);
  bool connect(Lock& lock);
  void replay(Lock& lock, std::shared_ptr<Link> link);
  void watch(Lock& lock);
  void check_life(const std::shared_ptr<Link>& link, bool hung_up);
  uint64_t keeper_pause_ns(uint64_t now_ns) const;

  bool finished(std::span<const uint64_t> ids);
  bool await(Lock& lock, std::span<const uint64_t> ids, uint64_t until_ns, uint64_t now_ns);
  void sleep(Lock& lock, uint64_t until_ns);
  void spin(Lock& lock, Link& link, uint64_t until_ns, uint64_t& now_ns);

  // A registering call's turn: one at a time, the keeper's replay included.
  bool take_turn(Lock& lock, uint64_t until_ns);
  void end_turn();
  Answer ask(Lock& lock, RecordType type, Encoded request, uint64_t until_ns);
  Status make_region(Lock& lock, RegionObject& region, uint64_t until_ns);
  Status make_layout(Lock& lock, LayoutObject& layout, uint64_t until_ns);
  Status make_namespace(Lock& lock, NamespaceObject& space, uint64_t until_ns);
  Status make_staging(Lock& lock, uint64_t until_ns);
  Status keep_region(Lock& lock, RegionObject&& region, uint64_t timeout_ns, uint64_t& id);
  Status drop(Lock& lock, Handle handle, uint64_t until_ns);
  template <typename Object>
  Status made(std::map<uint64_t, Object>& objects, uint64_t& id, Status status);

  Status ready_namespace(uint64_t id, bool stale_too, Handle& handle);
  Status start(std::unique_ptr<Operation> op, uint64_t timeout_ns, uint64_t& id);
  Status take_blocks(const kvs_items& items, Operation& op);
  Status take_runs(const kvs_items& items, Operation& op);

  const Options options_;
  const uint64_t forks_;
  std::mutex mutex_;
  std::condition_variable changed_;  // connection state, turns
  Core core_;
  UniqueFd keeper_wake_, event_, event_set_;
  bool event_wanted_ = false, staging_said_ = false, turn_taken_ = false, stop_ = false;
  uint32_t sleepers_ = 0;
  AdaptiveSpin spin_;
  uint64_t changes_told_ = 0, keeper_until_ns_ = 0;
  uint64_t connects_ = 0, epoch_ = 0, session_ = 0, pause_ns_ = 0;
  std::array<std::byte, 16> node_{};
  int daemon_pid_ = 0;
  Status refused_;  // why the last attempt failed
  static bool may_pass(const Status& refused);  // the next attempt may succeed by itself
  bool replay_again_ = false, hold_off_ = false;
  uint64_t connected_ns_ = 0;
  MappedMemory staging_memory_;
  std::thread keeper_;
};

}  // namespace kvsidecar::clientlib
