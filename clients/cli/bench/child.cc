// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/bench/child.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

namespace kvsidecar {

Result<Child> Child::run(const std::function<int()>& job) {
  const pid_t parent = getpid();
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid < 0) return os_error("fork", errno);
  if (pid > 0) return Child(pid);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(2);
  const int code = job();
  std::fflush(nullptr);
  _exit(code);
}

Child::Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}

Child::~Child() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

int Child::wait() {
  int status = 0;
  if (pid_ <= 0 || waitpid(pid_, &status, 0) != pid_) return -1;
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Result<SharedMemory> SharedMemory::make(uint64_t bytes) {
  auto fd = make_memfd("kvsidecar-bench", bytes);
  if (!fd) return fd.status();
  auto memory = MappedMemory::map(fd->get(), 0, bytes, Access::kReadWrite);
  if (!memory) return memory.status();
  return SharedMemory(memory.take());
}

bool await_change(const std::atomic<uint32_t>& word, uint32_t expected, uint64_t timeout_ns) {
  const uint64_t until_ns = monotonic_ns() + timeout_ns;
  while (word.load(std::memory_order_acquire) == expected) {
    const uint64_t now_ns = monotonic_ns();
    if (now_ns >= until_ns) return false;
    futex_wait(word, expected, std::min<uint64_t>(until_ns - now_ns, 100'000'000));
  }
  return true;
}

}  // namespace kvsidecar
