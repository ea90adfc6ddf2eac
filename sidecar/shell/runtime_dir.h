// SPDX-License-Identifier: Apache-2.0
// The runtime directory: one daemon per directory, by a locked pid file. The lock ends with the
// process, however it ends; the file stays and tells the next daemon who was before. Start-up;
// blocking.
#pragma once
#include <optional>
#include <string>

#include "ipc/os.h"

namespace kvsidecar {

// For a directory that is still to be made, as mkdir makes it: its parent must be there. The error
// names key, value and remedy.
Status check_parent(const char* key, const std::string& path);

class RuntimeDir {
 public:
  // Makes the directory (0750; group: see the socket) if it is missing, locks its pid file and
  // writes this process into it. kBusy with the owner's pid when another daemon has it;
  // one that was killed and is still ending is waited for, some seconds at most.
  static Result<RuntimeDir> claim(const std::string& path);
  const std::string& path() const { return path_; }
  // The process that had the directory before: 0 when there was none.
  int predecessor_pid() const { return predecessor_.pid; }
  // True when that process is gone for certain: another boot, no such pid, or the pid is another
  // process's by now. Looks into /proc.
  bool predecessor_gone() const;

 private:
  struct Identity {  // what tells a process from every other one, ever
    int pid = 0;
    uint64_t start_ticks = 0;
    std::string boot_id;
  };
  static Identity identity_of(int pid);
  static Identity read_identity(int fd);

  std::string path_;
  UniqueFd lock_;
  Identity predecessor_;
};

}  // namespace kvsidecar
