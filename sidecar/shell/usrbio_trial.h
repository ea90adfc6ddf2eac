// SPDX-License-Identifier: Apache-2.0
// Which way to speak USRBIO the daemon died with: the site's library can end the process, and a
// start that takes it again would end again. Notes lie in the state directory's file `usrbio`, one
// line a start ("<client> <wall clock in ms>"), written before the client is used and taken out
// when the daemon ends as it should. Those older than ten minutes count no more. Blocking; start-up
// and end.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "ipc/result.h"

namespace kvsidecar {

class UsrbioTrial {
 public:
  UsrbioTrial(std::string state_dir, uint64_t now_wall_ms);
  ~UsrbioTrial();  // takes the own note out
  UsrbioTrial(const UsrbioTrial&) = delete;
  UsrbioTrial& operator=(const UsrbioTrial&) = delete;

  // Two daemons of the last ten minutes did not end as they should with it.
  bool is_dangerous(const std::string& client) const;
  // The error names the file; the client must not be used then.
  Status begin(const std::string& client);

 private:
  struct Note {
    std::string client;
    uint64_t wall_ms = 0;
  };
  void read();
  Status write() const;

  const std::string path_;
  const uint64_t now_wall_ms_;
  std::vector<Note> notes_;
  bool begun_ = false;
};

}  // namespace kvsidecar
