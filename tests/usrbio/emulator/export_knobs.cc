// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/emulator/export.h"
#include "tests/usrbio/emulator/knobs.h"

using namespace kvsidecar::emulator;

KVS_EXPORT int kvs_emulator_faults(const char* text) { return state().set_faults(text); }

KVS_EXPORT void kvs_emulator_release(void) { state().daemon.release_stalled(); }

KVS_EXPORT void kvs_emulator_fail_call(uint64_t nth, int error) { calls().fail(nth, error); }

KVS_EXPORT uint64_t kvs_emulator_calls(void) { return calls().count(); }

KVS_EXPORT void kvs_emulator_kill_daemon(void) { state().kill_daemon(); }

KVS_EXPORT void kvs_emulator_restart_daemon(void) { state().daemon.restart(); }

KVS_EXPORT void kvs_emulator_crash(int die) { calls().set_deadly(die != 0); }

KVS_EXPORT uint64_t kvs_emulator_count(const char* name) {
  const std::string wanted = name;
  if (wanted == "iov_handles") return state().iov_handles.load();
  if (wanted == "ring_handles") return state().ring_handles.load();
  if (wanted == "registered") return state().descriptors.count();
  if (wanted == "dups") return Duplicate::alive();
  if (wanted == "slots_per_fd") return state().descriptors.numbers_max();
  return static_cast<uint64_t>(state().daemon.counts().get(wanted));
}
