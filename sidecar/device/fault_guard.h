// SPDX-License-Identifier: Apache-2.0
// A per-thread guard against SIGBUS. A client's file may shrink while the daemon copies from or to
// its mapping; the kernel then raises SIGBUS in the copying thread. Inside guarded() that ends the
// call, not the daemon. Anywhere else the signal goes to the handler that was there before (or
// kills the process, with a core, as by default).
//
// Any thread, nested if need be. The handler is installed once, at the first call, for the process.
// SIGBUS must not be blocked in the thread.
#pragma once

namespace kvsidecar {

// Runs body(context). Returns null when it came to its end, else the address that faulted. What the
// body did until then stays done, its destructors don't run: it should do nothing but copy.
const void* run_guarded(void (*body)(void*), void* context);

// The same for a callable without parameters.
template <typename Body>
const void* guarded(Body& body) {
  return run_guarded([](void* context) { (*static_cast<Body*>(context))(); }, &body);
}

}  // namespace kvsidecar
