// SPDX-License-Identifier: Apache-2.0
// What the doctor looks at on this machine. Reads /proc, /dev/shm and the socket; changes nothing
// but one unnamed file that it opens in the store's directory. Any thread; may take milliseconds.
#pragma once
#include <optional>
#include <string>

#include "clients/cli/doctor_checks.h"

namespace kvsidecar {

SocketFacts socket_facts(const std::string& path);
ShmFacts shm_facts(const std::string& directory);
// RLIMIT_MEMLOCK, soft, of a process (0: this one); nullopt: unlimited, or it can't be read.
std::optional<uint64_t> memlock_limit(int pid);
int io_uring_error();                            // 0: io_uring_setup works
int direct_error(const std::string& directory);  // 0: an O_DIRECT write works there
std::string kernel_release();
std::string file_text(const std::string& path);  // empty when it can't be read

}  // namespace kvsidecar
