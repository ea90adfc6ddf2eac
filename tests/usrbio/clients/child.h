// SPDX-License-Identifier: Apache-2.0
// This program as another process with a client of its own.
//   … child LIBRARY write FILE BYTES SEED   writes a pattern through a ring, ends with 0
//   … child LIBRARY hold FILE               makes everything, writes a line, waits to be killed
// LIBRARY: "-" = the builtin client.
#pragma once
#include <string>
#include <vector>

#include "ipc/os.h"

namespace kvsidecar::usrbio {

class Child {
 public:
  Child(int pid, UniqueFd output) : pid_(pid), output_(std::move(output)) {}
  Child(Child&& other) noexcept : pid_(other.pid_), output_(std::move(other.output_)) {
    other.pid_ = -1;
  }
  ~Child() { kill(); }
  bool wait_for_line();  // false: it ended, or said nothing for 20 s
  int wait();            // its exit code; -1: a signal
  void kill();           // by SIGKILL

 private:
  int pid_;
  UniqueFd output_;
};

Child start_child(const std::vector<std::string>& command);
int run_child(const std::vector<std::string>& command);  // its exit code

// main() of such a process: the arguments after "child".
int child_main(const std::vector<std::string>& arguments);

}  // namespace kvsidecar::usrbio
