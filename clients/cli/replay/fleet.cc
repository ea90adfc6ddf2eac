// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/replay/fleet.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace kvsidecar {

Fleet::~Fleet() {
  for (const pid_t pid : engines_) kill(pid, SIGKILL);
  for (const pid_t pid : engines_) waitpid(pid, nullptr, 0);
}

Status Fleet::start(const EngineOptions& options, const std::vector<std::vector<uint64_t>>& prompts,
                    Scoreboard& board) {
  const pid_t parent = getpid();
  // What stands in the buffers now would be written by every child again.
  std::fflush(nullptr);
  for (uint32_t number = 0; number < options.engines; ++number) {
    const pid_t pid = fork();
    if (pid < 0) return os_error("fork of an engine", errno);
    if (pid > 0) {
      engines_.push_back(pid);
      continue;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(2);
    EngineOptions own = options;
    own.number = number;
    const Status status = run_engine(own, prompts, board);
    if (!status.ok())
      std::fprintf(stderr, "replay: engine %u: %s\n", number, status.text().c_str());
    std::fflush(nullptr);
    _exit(status.ok() ? 0 : 2);
  }
  return {};
}

size_t Fleet::running() {
  std::erase_if(engines_, [this](pid_t pid) {
    int status = 0;
    if (waitpid(pid, &status, WNOHANG) != pid) return false;
    if (WIFSIGNALED(status))
      std::fprintf(stderr, "replay: engine process %d: %s\n", pid, strsignal(WTERMSIG(status)));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) ++failed_;
    return true;
  });
  return engines_.size();
}

}  // namespace kvsidecar
