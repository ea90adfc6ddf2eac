// SPDX-License-Identifier: Apache-2.0
#include "sidecar/shell/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "ipc/os.h"
#include "sidecar/shell/log.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kMillisecondNs = 1'000'000;
constexpr int kExitNoChild = 70;

class Supervisor {
 public:
  Supervisor(const SupervisorOptions& options, std::atomic<uint64_t>* word, int signals)
      : options_(options), word_(word), signals_(signals) {}

  // One life of the child. True: start another; else the exit code is set.
  bool watch(pid_t child, int pidfd) {
    const uint64_t started_ns = monotonic_ns();
    wait_for_end(child, pidfd);
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status)) {
      exit_code_ = WEXITSTATUS(status);
      return false;
    }
    const int signal = WTERMSIG(status);
    if (stopping_) {
      exit_code_ = 128 + signal;
      return false;
    }
    if (monotonic_ns() - started_ns >= options_.healthy_ns) backoff_ns_ = 0;
    backoff_ns_ = std::clamp(backoff_ns_ * 2, options_.backoff_first_ns, options_.backoff_max_ns);
    log_event(LogLevel::kWarning, "supervisor_restarts_daemon",
              {{"pid", child}, {"signal", signal}, {"backoff_ms", backoff_ns_ / kMillisecondNs}});
    return !stopped_during_backoff();
  }
  int exit_code() const { return exit_code_; }

 private:
  void wait_for_end(pid_t child, int pidfd) {
    const uint64_t interval_ns =
        options_.timeout_ns == 0
            ? 3600'000 * kMillisecondNs
            : std::clamp(options_.timeout_ns / 10, 5 * kMillisecondNs, 1000 * kMillisecondNs);
    uint64_t seen = word_->load(std::memory_order_relaxed), silent_ns = 0;
    uint64_t last_ns = monotonic_ns();
    for (;;) {
      pollfd waited[2] = {{pidfd, POLLIN, 0}, {signals_, POLLIN, 0}};
      if (::poll(waited, 2, static_cast<int>(interval_ns / kMillisecondNs)) < 0 && errno != EINTR)
        return;
      if ((waited[0].revents & POLLIN) != 0) return;
      if ((waited[1].revents & POLLIN) != 0) pass_on(child);
      const uint64_t now_ns = monotonic_ns(), value = word_->load(std::memory_order_relaxed);
      // A supervisor that was itself stopped counts its own absence once, not in full.
      silent_ns = value == seen ? silent_ns + std::min(now_ns - last_ns, 2 * interval_ns) : 0;
      last_ns = now_ns;
      seen = value;
      if (options_.timeout_ns == 0 || silent_ns < options_.timeout_ns) continue;
      log_event(
          LogLevel::kError, "supervisor_kills_daemon",
          {{"pid", child}, {"reason", "no_progress"}, {"silent_ms", silent_ns / kMillisecondNs}});
      ::kill(child, SIGKILL);
      silent_ns = 0;  // a process stuck in the kernel is told again, and waited for
    }
  }

  void pass_on(pid_t child) {
    signalfd_siginfo info{};
    if (::read(signals_, &info, sizeof info) != sizeof info) return;
    stopping_ = true;
    ::kill(child, static_cast<int>(info.ssi_signo));
  }

  bool stopped_during_backoff() {
    pollfd waited{signals_, POLLIN, 0};
    return ::poll(&waited, 1, static_cast<int>(backoff_ns_ / kMillisecondNs)) > 0;
  }

  const SupervisorOptions& options_;
  std::atomic<uint64_t>* const word_;
  const int signals_;
  uint64_t backoff_ns_ = 0;
  bool stopping_ = false;
  int exit_code_ = 0;
};

[[noreturn]] void live(int (*life)(void*, Progress), void* context, std::atomic<uint64_t>* word,
                       pid_t parent, const sigset_t& mask) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(0);  // it died before the line above
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  std::exit(life(context, Progress(word)));
}

}  // namespace

Progress::Progress() {
  static std::atomic<uint64_t> word{0};
  word_ = &word;
}

int supervise(const SupervisorOptions& options, int (*life)(void* context, Progress progress),
              void* context) {
  void* page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  KV_CHECK(page != MAP_FAILED);
  auto* word = new (page) std::atomic<uint64_t>(0);
  sigset_t handled, before;
  sigemptyset(&handled);
  sigaddset(&handled, SIGTERM);
  sigaddset(&handled, SIGINT);
  sigaddset(&handled, SIGHUP);
  sigprocmask(SIG_BLOCK, &handled, &before);
  const int signals = ::signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK);
  KV_CHECK(signals >= 0);
  Supervisor supervisor(options, word, signals);
  const pid_t own = ::getpid();
  int exit_code = kExitNoChild;
  for (bool again = true; again;) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(signals);
      live(life, context, word, own, before);
    }
    if (child < 0) {
      log_event(LogLevel::kError, "supervisor_fork_failed", {{"error", std::strerror(errno)}});
      break;
    }
    const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, child, 0));
    KV_CHECK(pidfd >= 0);
    again = supervisor.watch(child, pidfd);
    exit_code = supervisor.exit_code();
    ::close(pidfd);
  }
  ::close(signals);
  ::munmap(page, 4096);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  return exit_code;
}

}  // namespace kvsidecar
