// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <exception>

#include "tests/usrbio/abi/bed.h"

namespace kvsidecar::abi {

namespace {

// Exit codes of the child that stand for what isn't an exit of the call's own.
constexpr int kThrew = 99;

[[noreturn]] void call_and_exit(const std::function<int()>& call) {
  // A sanitizer would turn the signal into an exit, and a dump takes long.
  for (const int signal : {SIGSEGV, SIGFPE, SIGABRT, SIGBUS, SIGILL}) {
    std::signal(signal, SIG_DFL);
  }
  const rlimit none{};
  ::setrlimit(RLIMIT_CORE, &none);
  try {
    ::_exit(call() & 0xff);
  } catch (const std::exception&) {
    ::_exit(kThrew);
  }
}

}  // namespace

Ending in_a_child(const std::function<int()>& call) {
  const pid_t child = ::fork();
  if (child == 0) call_and_exit(call);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  if (WIFSIGNALED(status)) return {Ending::Kind::kSignal, WTERMSIG(status)};
  const int code = WEXITSTATUS(status);
  if (code == kThrew) return {Ending::Kind::kThrew, 0};
  return {Ending::Kind::kReturned, static_cast<int8_t>(code)};
}

}  // namespace kvsidecar::abi
