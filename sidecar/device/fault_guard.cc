// SPDX-License-Identifier: Apache-2.0
#include "sidecar/device/fault_guard.h"

#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>

#include "ipc/result.h"

namespace kvsidecar {
namespace {

struct Frame {
  sigjmp_buf resume;
  const void* volatile address;
};

thread_local Frame* volatile active_frame = nullptr;
struct sigaction previous_action;

void chain(int signal, siginfo_t* info, void* machine) {
  if ((previous_action.sa_flags & SA_SIGINFO) != 0 && previous_action.sa_sigaction != nullptr) {
    previous_action.sa_sigaction(signal, info, machine);
  } else if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN) {
    previous_action.sa_handler(signal);
  } else {
    // Returning runs the faulting instruction again, now with the default action: a core of the
    // right place.
    struct sigaction fallback {};
    fallback.sa_handler = SIG_DFL;
    ::sigaction(SIGBUS, &fallback, nullptr);
  }
}

void on_bus_error(int signal, siginfo_t* info, void* machine) {
  Frame* frame = active_frame;
  // A SIGBUS that somebody sent (si_code <= 0) didn't come from the copy.
  if (frame == nullptr || info->si_code <= 0) return chain(signal, info, machine);
  frame->address = info->si_addr;
  // The jump leaves the handler for good, so the mask of before the signal is put back here; in
  // sigsetjmp that would cost every guarded call a system call.
  ::pthread_sigmask(SIG_SETMASK, &static_cast<ucontext_t*>(machine)->uc_sigmask, nullptr);
  siglongjmp(frame->resume, 1);
}

bool install() {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  KV_CHECK(::sigaction(SIGBUS, &action, &previous_action) == 0);
  return true;
}

}  // namespace

const void* run_guarded(void (*body)(void*), void* context) {
  static const bool installed = install();
  (void)installed;
  Frame frame;
  frame.address = nullptr;
  Frame* const outer = active_frame;
  if (sigsetjmp(frame.resume, 0) == 0) {
    active_frame = &frame;
    body(context);
  } else if (frame.address == nullptr) {
    frame.address = context;  // a fault at address 0 must still be told from success
  }
  active_frame = outer;
  return frame.address;
}

}  // namespace kvsidecar
