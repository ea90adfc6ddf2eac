// SPDX-License-Identifier: Apache-2.0
// Names of what a test makes under /dev/shm and /tmp, with the process in them, and what a test
// that was killed left there.
#pragma once
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "sidecar/store/usrbio/keys.h"

namespace kvsidecar::usrbio {

inline constexpr std::string_view kTestNames = "kvsidecar.test-usrbio-";

inline std::string test_name() {
  return std::string(kTestNames) + std::to_string(::getpid()) + "-" + id_text(make_id());
}

inline void sweep_dead_tests() {
  for (const char* folder : {"/dev/shm", "/tmp"}) {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
      const std::string name = entry.path().filename();
      const size_t at = name.find(kTestNames);
      if (at == std::string::npos) continue;
      const int pid = std::atoi(name.c_str() + at + kTestNames.size());
      if (pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH)
        std::filesystem::remove_all(entry.path(), ignored);
    }
  }
}

}  // namespace kvsidecar::usrbio
