// SPDX-License-Identifier: Apache-2.0
// What the emulator's library exports besides the 21 functions, for tests in the same process
// (dlsym). Everything may be called from any thread.
//
// Environment, read when the library is loaded:
//   KVSIDECAR_EMULATOR_MOUNT    folders that are "mounts", separated by ':'
//   KVSIDECAR_EMULATOR_CHUNK    bytes of a chunk (default 1 MiB)
//   KVSIDECAR_EMULATOR_CRASH    0: what the real library would die of returns -EINVAL instead
//   KVSIDECAR_EMULATOR_FAULTS   as kvs_emulator_faults
#pragma once
#include <cstdint>

#define KVS_EMULATOR_KNOBS(X)                                                                 \
  /* Faults of the daemon's side: "NAME VALUE", several separated by ';', the names of     */ \
  /* tests/usrbio/core/faults.h. They replace those set before; "" = none. 0, or -EINVAL:  */ \
  /* nothing was changed.                                                                  */ \
  X(faults, int, (const char* text))                                                          \
  X(release, void, (void)) /* what stalls goes on */                                          \
  /* Of the calls that can fail, the nth from here (1: the next) fails with this errno and */ \
  /* does nothing. 0: none.                                                                */ \
  X(fail_call, void, (uint64_t nth, int error))                                               \
  /* Calls that can fail, since the last fail_call.                                        */ \
  X(calls, uint64_t, (void))                                                                  \
  /* The fuse daemon dies: its rings are dead, its tables empty. What was running ends.    */ \
  X(kill_daemon, void, (void))                                                                \
  X(restart_daemon, void, (void))                                                             \
  /* 1: die where the real library dies (default); 0: -EINVAL.                             */ \
  X(crash, void, (int die))                                                                   \
  /* Live things by name: iovs, rings (as the daemon counts them), iov_handles,            */ \
  /* ring_handles, registered (descriptor numbers), dups; slots_per_fd (what the real      */ \
  /* library allocates when it is loaded: one for each number up to the hard limit); else  */ \
  /* the names of tests/usrbio/core/counts.h.                                              */ \
  X(count, uint64_t, (const char* name))
