// SPDX-License-Identifier: Apache-2.0
// A store of segment files in this node's folder of a directory, through io_uring, with O_DIRECT
// where the file system allows. Opening blocks (it claims the folder); everything else is
// asynchronous. Fault points: store.open, store.allocate, store.write, store.read, store.fsync,
// store.unlink, store.direct (O_DIRECT is refused), store.uring (io_uring is), store.short_read,
// store.short_write (half is moved), store.stall (nothing completes while it is set).
//
// On 3FS (see usrbio/usrbio_store.h) reads and writes go by a TransferPath, and a FileDoor stands
// between the store and calls that may hang.
//
// A crash leaves segments whose directories say what they hold; pages whose entry was not written
// yet are lost. Closing waits for the I/O in flight and writes what is ready.
#pragma once
#include <memory>
#include <span>
#include <string>

#include "sidecar/env.h"
#include "sidecar/store/breaker.h"
#include "sidecar/store/store.h"
#include "sidecar/store/store_log.h"
#include "sidecar/store/store_parts.h"
#include "sidecar/store/transfer_path.h"

namespace kvsidecar {

struct FileStoreOptions {
  std::string root;             // an existing directory
  std::string state_directory;  // holds the node's uuid
  uint32_t number = 0;          // which of the node's stores on that root this is
  uint64_t segment_bytes = 1ull << 30;
  uint64_t stripe_bytes = 1ull << 20;  // the file system's chunk; 0 = none
  uint64_t capacity_bytes = 0;         // all files together stay below it; 0 = no limit
  size_t queue_capacity = 1024;        // commands that are not done yet
  Breaker::Limits breaker;
  uint64_t close_ns = 5'000'000'000;  // how long closing waits for I/O that doesn't end
  std::string why;              // how this store came to be chosen, for describe(); may be empty
  Waker* done_waker = nullptr;  // woken when completions were pushed; may be null

  // What these point to outlives the store. The root is then the directory that root_fd has open,
  // and `root` its name in messages; -1: it is opened by its name.
  int root_fd = -1;
  TransferPath* path = nullptr;  // asked first for reads and writes; null: none
  FileDoor* door = nullptr;
  bool late_lengths = false;           // see StoreParts
  std::span<std::byte> bounce_memory;  // for the bounce pool, or empty: its own
  int event_fd = -1;                   // signalled by the kernel's completions; -1: the waker's
  std::function<void(int error)> on_error;  // store worker: an I/O failed
};

class FileStore final : public Store {
 public:
  // kInvalid / kDenied / kUnavailable with a sentence naming the folder and the remedy.
  static Result<std::unique_ptr<FileStore>> open(const FileStoreOptions& options, Clock& clock,
                                                 FaultPoints& faults, StoreLog log);
  ~FileStore() override;

  bool submit(StoreCommand&& command) override;
  bool poll(StoreDone& done) override;
  bool has_done() const override;
  std::string describe() const override;
  uint64_t used_bytes() const override;
  uint64_t wanted_bytes() const override;
  void set_capacity(uint64_t bytes);  // before the first step
  // What wanted_bytes() is made of.
  static uint64_t wanted_bytes(const StoreCounters& counters, uint64_t segment_bytes,
                               uint64_t capacity_bytes);
  bool step() override;
  bool turn();                        // a step that never waits
  uint64_t wait_ns(uint64_t now_ns);  // how long to wait after a turn() that did nothing; 0: any
  bool has_work() override;
  uint64_t sleep_cap_ns() const override { return 200'000'000; }  // the breaker watches the time

  // Conductor: memory that pages will come from and go to, to be pinned for the ring. It must stay
  // mapped as long as the store lives. Only a hint: where RLIMIT_MEMLOCK is small, one log line
  // says so and I/O goes on without. False when too many wait.
  bool register_memory(std::span<std::byte> memory);

  // Store worker. Opens the breaker: what waits ends at once, and so does what is submitted.
  void trip();
  // Ends what it has: commands that were not started are reported as failed, the rest as it ends;
  // turns go on until ended(). It then closes at once.
  void wind_up();
  bool ended() const;
  UniqueFd take_claim();  // see NodeFolder
  int folder_fd() const;
  int probe_fd() const;  // a file of the folder that takes probes; -1 before the first turn
  const StoreCounters& counters() const;  // any thread
  const std::string& folder() const;

 private:
  struct State;
  explicit FileStore(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace kvsidecar
