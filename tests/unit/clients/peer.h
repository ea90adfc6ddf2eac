// SPDX-License-Identifier: Apache-2.0
// A peer for the client library: speaks the real handshake and rings through ipc/, keeps pages in a
// map, and can be told to misbehave. In a thread of the test, or in a forked process that is to be
// stopped and killed. Knobs may be turned from any thread.
#pragma once
#include <sys/types.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ipc/claim.h"
#include "ipc/codec.h"
#include "ipc/handshake_io.h"

namespace kvsidecar::testing {

struct Knobs {
  Geometry geometry{16, 4, 64, 16, 128, 8};
  std::atomic<bool> frozen{false};        // takes no records
  std::atomic<bool> holds_copies{false};  // claims puts and gets, then neither copies nor answers
  std::atomic<bool> answers_early{false};  // claims and answers OK, and copies on and on
  std::atomic<bool> refuses{false};       // answers HELLO with DENIED
  std::atomic<int> busy_for{0};           // answers so many HELLOs with BUSY first
  std::atomic<uint64_t> generation{1};    // of every namespace
};

struct Seen {
  RecordType type;
  uint32_t items;
};

class Peer {
 public:
  explicit Peer(std::string path, Knobs& knobs);
  ~Peer();
  void start();  // serves in a thread
  void stop();   // hangs up on everybody and forgets the sessions
  void run();    // serves in this thread until stop()
  std::vector<Seen> seen() const;
  size_t pages() const;
  // Serves in a forked child until it is killed. Call before any thread runs. 0: fork failed.
  static pid_t serve_in_child(const std::string& path, Knobs& knobs);

 private:
  struct Session;
  struct Layout {
    uint32_t blocks;
    std::vector<LayoutRun> runs;
  };
  void accept_one();
  bool read_socket(Session& session);  // true: a message was read
  bool serve(Session& session);
  void take(Session& session, const RecordHead& head, Bytes record);
  void register_region(Session& session, const RecordHead& head, const RegisterRegionRequest& r);
  void lookup(Session& session, const RecordHead& head, const LookupRequest& request);
  template <typename Request>
  void transfer(Session& session, const RecordHead& head, const Request& request, bool put);
  bool copy(Session& session, const std::vector<Run>& runs, std::vector<std::byte>& page, bool put);
  void answer(Session& session, const RecordHead& head, Code code, uint64_t handle, uint64_t value,
              Bytes payload);

  std::string path_;
  Knobs& knobs_;
  UniqueFd listening_, stop_, pidfd_;
  std::thread thread_;
  std::vector<std::unique_ptr<Session>> sessions_;
  uint64_t last_handle_ = 100, epoch_ = 7;
  mutable std::mutex mutex_;  // over what tests read
  std::vector<Seen> seen_;
  std::map<std::string, std::vector<std::byte>> pages_;
};

}  // namespace kvsidecar::testing
