// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/replay/daemon_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

namespace kvsidecar {
namespace {

constexpr int kStepMs = 10;
constexpr int kWaitSteps = 30'000 / kStepMs;
constexpr size_t kLogTailBytes = 2000;

void pause_step() { (void)poll(nullptr, 0, kStepMs); }

bool answers(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return false;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool connected =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return connected;
}

// In the child: becomes the daemon or ends. `parent` is the replay's pid.
[[noreturn]] void become(const char* program, const char* config, int log, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(127);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  // Without its supervisor: the process that is killed has to be the daemon itself.
  execl(program, program, "--config", config, "--no-supervisor", static_cast<char*>(nullptr));
  dprintf(STDERR_FILENO, "%s: %s\n", program, strerror(errno));
  _exit(127);
}

}  // namespace

DaemonProcess::DaemonProcess(std::string program, std::string config, std::string socket)
    : program_(std::move(program)),
      config_(std::move(config)),
      socket_(std::move(socket)),
      log_(config_ + ".log") {}

DaemonProcess::~DaemonProcess() { stop(); }

Status DaemonProcess::spawn() {
  const int log = open(log_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log < 0) return os_error("open of " + log_, errno);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) become(program_.c_str(), config_.c_str(), log, parent);
  const int error = errno;
  close(log);
  if (pid_ < 0) return os_error("fork for " + program_, error);
  return {};
}

Status DaemonProcess::start() {
  Status spawned = spawn();
  if (!spawned.ok()) return spawned;
  for (int step = 0; step < kWaitSteps; ++step) {
    if (answers(socket_)) return {};
    if (!is_running())
      return {Code::kUnavailable, program_ + " ended at its start; its log says:\n" + log_tail()};
    pause_step();
  }
  return {Code::kUnavailable,
          program_ + " doesn't answer at " + socket_ + "; its log says:\n" + log_tail()};
}

void DaemonProcess::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void DaemonProcess::stop() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGTERM);
  for (int step = 0; step < kWaitSteps; ++step) {
    if (!is_running()) return;
    pause_step();
  }
  kill();
}

bool DaemonProcess::is_running() {
  if (pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = -1;
  return pid_ > 0;
}

std::string DaemonProcess::log_tail() const {
  std::ifstream file(log_);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return text.substr(text.size() - std::min(text.size(), kLogTailBytes));
}

}  // namespace kvsidecar
