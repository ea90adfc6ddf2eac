// SPDX-License-Identifier: Apache-2.0
// Whether a file system answers. One that is a process or another machine may never do so, and a
// system call that waits for it can't be given up: so a thread of its own asks. Any thread.
#pragma once
#include <cstdint>
#include <string>

namespace kvsidecar {

// 0: it answers; ETIMEDOUT: it hasn't within wait_ns (the thread stays until it does); else the
// errno of statvfs() on that path.
int ask_file_system(const std::string& path, uint64_t wait_ns);

}  // namespace kvsidecar
