// SPDX-License-Identifier: Apache-2.0
// The store on 3FS: segment files whose bytes go through USRBIO's rings, straight from and into the
// host pool, which the fuse daemon has mapped too.
//
//   Up:        a FileStore on the mount does the work.
//   Down:      the mount is lost (its heartbeat says so). Reads end kIoError with breaker_open,
//              writes kNotStored, at once; scans wait. What was in flight ends a grace time after
//              the proof of the fuse daemon's death, not before: until then it may still be
//              written.
//   Returning: a mount is there again: new client, rings, memory, files and a new epoch on the same
//              folder. Its directories are read first, so that old locations are found again; what
//              vanished is a miss.
//
// A mount that hangs is not lost: the breaker opens, and closes again when it answers. Nothing ends
// the process. Threads: the store worker turns it; the mount thread (mount_thread.h) makes all
// calls that wait for the fuse daemon.
#pragma once
#include <memory>
#include <string>

#include "sidecar/store/usrbio/mounted.h"

namespace kvsidecar {

class UsrbioStore final : public Store {
 public:
  // Waits for the mount, at most open_wait_ns. The error says what is wrong and the remedy.
  static Result<std::unique_ptr<UsrbioStore>> open(const UsrbioStoreOptions& options, Clock& clock,
                                                   FaultPoints& faults, StoreLog log);
  ~UsrbioStore() override;

  bool submit(StoreCommand&& command) override;
  bool poll(StoreDone& done) override;
  bool has_done() const override;
  std::string describe() const override;
  uint64_t used_bytes() const override;
  uint64_t wanted_bytes() const override;
  bool step() override;
  bool has_work() override;
  uint64_t sleep_cap_ns() const override { return 200'000'000; }

  void set_capacity(uint64_t bytes);  // before the first step
  // Conductor: memory that pages will come from and go to, mapped whole from that file, as long as
  // the store lives. Only a hint: what 3FS can't use is copied. False when too many wait.
  bool register_memory(const std::string& path, std::span<std::byte> memory);
  const StoreCounters& counters() const;          // any thread
  const UsrbioCounters& usrbio_counters() const;  // any thread
  const std::string& folder() const;              // of the first life
  MountThread& mount_thread();                    // tests

 private:
  struct State;
  explicit UsrbioStore(const UsrbioStoreOptions& options, Clock& clock, FaultPoints& faults,
                       StoreLog log);
  std::unique_ptr<State> state_;
};

}  // namespace kvsidecar
