// SPDX-License-Identifier: Apache-2.0
// A kvsidecard that a replay owns: started, killed and started again on one configuration. Its
// output goes to `<config>.log`. Ends with the replay, however that ends. One thread; blocks where
// it says so.
#pragma once
#include <sys/types.h>

#include <string>

#include "ipc/result.h"

namespace kvsidecar {

class DaemonProcess {
 public:
  DaemonProcess(std::string program, std::string config, std::string socket);
  ~DaemonProcess();  // SIGTERM as stop()
  DaemonProcess(const DaemonProcess&) = delete;
  DaemonProcess& operator=(const DaemonProcess&) = delete;

  // Starts it and blocks until its socket answers, at most 30 s.
  Status start();
  // SIGKILL; blocks until it is gone.
  void kill();
  // SIGTERM; blocks until it is gone, after 30 s with SIGKILL.
  void stop();
  // False once it has ended by itself.
  bool is_running();

 private:
  Status spawn();
  std::string log_tail() const;

  std::string program_, config_, socket_, log_;
  pid_t pid_ = -1;
};

}  // namespace kvsidecar
