// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/replay/config_socket.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "clients/cli/config_value.h"
#include "ipc/os.h"

namespace kvsidecar {
namespace {

// In the child: becomes the daemon's program, whose complaints go to this process's stderr.
[[noreturn]] void become(const char* program, const char* config, int out) {
  dup2(out, STDOUT_FILENO);
  execl(program, program, "--config", config, "--print-config", static_cast<char*>(nullptr));
  dprintf(STDERR_FILENO, "replay: --daemon %s: %s\n", program, strerror(errno));
  _exit(127);
}

std::string all_of(int fd) {
  std::string text;
  char part[4096];
  for (;;) {
    const ssize_t got = read(fd, part, sizeof part);
    if (got > 0) text.append(part, static_cast<size_t>(got));
    if (got == 0 || (got < 0 && errno != EINTR)) return text;
  }
}

}  // namespace

Result<std::string> socket_of_config(const std::string& program, const std::string& config) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return os_error("pipe for " + program, errno);
  const UniqueFd out(ends[0]);
  UniqueFd in(ends[1]);
  const pid_t pid = fork();
  if (pid == 0) become(program.c_str(), config.c_str(), in.get());
  const int error = errno;
  in = UniqueFd();
  if (pid < 0) return os_error("fork for " + program, error);
  const std::string text = all_of(out.get());
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  const std::string socket = config_value(text, "daemon", "socket");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || socket.empty())
    return invalid("--config " + config + ": " + program +
                   " --print-config names no daemon.socket; mend the file, or give --socket");
  return socket;
}

}  // namespace kvsidecar
