// SPDX-License-Identifier: Apache-2.0
// The commands of `kvsidecar`, one source each. Each asks or acts, prints to stdout and gives the
// exit code: 0; 1 when the daemon can't be reached or refuses; 2 when an argument is wrong. Main
// thread only. `replay`, `bench` and `import-hf3fs` have headers of their own.
#pragma once
#include <string>

#include "clients/cli/asker.h"

namespace kvsidecar {

int run_status(const Target& target);

struct TopOptions {
  uint32_t interval_ms = 1000;  // --interval
  uint32_t count = 0;           // --count: refreshes; 0: until a key or a signal ends it
};
int run_top(const Target& target, const TopOptions& options);

struct WhyOptions {
  std::string key;         // KEY, hex
  std::string name_space;  // --namespace, 32 hex digits; empty: all
};
int run_why(const Target& target, const WhyOptions& options);

struct LsOptions {
  bool sessions = false;  // --sessions: the attached processes instead of the namespaces
};
int run_ls(const Target& target, const LsOptions& options);

struct ClearOptions {
  std::string name_space;  // NAMESPACE, 32 hex digits
};
int run_clear(const Target& target, const ClearOptions& options);

struct DrainOptions {
  bool wait = false;  // --wait: until nothing runs and nothing waits to be written
};
int run_drain(const Target& target, const DrainOptions& options);

struct DoctorOptions {
  std::string config;  // --config: where the store's directory stands when no daemon answers
  std::string store;   // --store: that directory itself
};
int run_doctor(const Target& target, const DoctorOptions& options);

}  // namespace kvsidecar
