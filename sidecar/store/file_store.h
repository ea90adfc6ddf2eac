// SPDX-License-Identifier: Apache-2.0
// A store of segment files in this node's folder of a directory, through io_uring, with O_DIRECT
// where the file system allows. Opening blocks (it claims the folder); everything else is
// asynchronous. Fault points: store.open, store.allocate, store.write, store.read, store.fsync,
// store.unlink, store.direct (O_DIRECT is refused), store.uring (io_uring is), store.short_read,
// store.short_write (half is moved), store.stall (nothing completes while it is set).
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

namespace kvsidecar {

struct FileStoreOptions {
  std::string root;             // an existing directory
  std::string state_directory;  // holds the node's uuid
  uint32_t number = 0;          // which of the node's stores on that root this is
  uint64_t segment_bytes = 1ull << 30;
  uint64_t stripe_bytes = 1ull << 20;  // the file system's chunk; 0 = none
  uint64_t capacity_bytes = 0;   // all files together stay below it; 0 = no limit
  size_t queue_capacity = 1024;  // commands that are not done yet
  Breaker::Limits breaker;
  uint64_t close_ns = 5'000'000'000;  // how long closing waits for I/O that doesn't end
  Waker* done_waker = nullptr;        // woken when completions were pushed; may be null
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
  bool step() override;
  bool has_work() override;
  uint64_t sleep_cap_ns() const override { return 200'000'000; }  // the breaker watches the time

  // Conductor: memory that pages will come from and go to, to be pinned for the ring. It must stay
  // mapped as long as the store lives. Only a hint: where RLIMIT_MEMLOCK is small, one log line
  // says so and I/O goes on without. False when too many wait.
  bool register_memory(std::span<std::byte> memory);
  const StoreCounters& counters() const;  // any thread
  const std::string& folder() const;

 private:
  struct State;
  explicit FileStore(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace kvsidecar
