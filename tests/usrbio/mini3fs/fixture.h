// SPDX-License-Identifier: Apache-2.0
// A mini3fs for a test: a process of its own, mounted in a folder of its own below the temporary
// folder. Ends and cleans up with this object; what a killed test left is swept by the next start.
// Made, restarted and destroyed by one thread that outlives it (the server dies with that thread).
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ipc/os.h"

namespace kvsidecar::fake3fs {

class Mini3fs {
 public:
  struct Options {
    uint64_t chunk_bytes = 1 << 20;
    unsigned workers = 4;
    std::vector<std::string> more;  // words of the command line, see main.cc
  };
  // Why no FUSE server can run here, one sentence for GTEST_SKIP; empty: it can.
  static std::string missing();
  static Result<std::unique_ptr<Mini3fs>> start(const Options& options);
  static Result<std::unique_ptr<Mini3fs>> start() { return start(Options{}); }
  ~Mini3fs();

  const std::string& mount() const { return mount_; }
  const std::string& data() const { return data_; }  // the plain files behind the mount
  std::string iovs() const { return mount_ + "/3fs-virt/iovs"; }
  pid_t pid() const { return pid_; }

  void kill();          // SIGKILL: the mount is dead (ENOTCONN) from now on
  void detach();        // takes a dead or live mount away: the mount point is a plain folder then
  Status restart();     // kill, detach, start anew on the same data; no fault is kept
  void stop_process();  // SIGSTOP: everything hangs
  void continue_process();

  // Faults, see core/faults.h and control.h. kInvalid with the server's sentence.
  Status set(const std::string& name, const std::string& value);
  Status command(const std::string& line, std::string* reply = nullptr);
  Status clear() { return command("clear"); }
  Status release() { return command("release"); }
  int64_t count(const std::string& name);                    // -1: the server doesn't answer
  bool wait_for(const std::string& name, int64_t at_least);  // gives up after 20 s

 private:
  explicit Mini3fs(Options options) : options_(std::move(options)) {}
  Status spawn();
  Status connect();

  const Options options_;
  std::string folder_, mount_, data_, state_;
  pid_t pid_ = -1;
  UniqueFd control_;
};

}  // namespace kvsidecar::fake3fs
