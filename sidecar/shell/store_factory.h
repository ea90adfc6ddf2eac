// SPDX-License-Identifier: Apache-2.0
// The store that a Config names. Start-up; blocking.
#pragma once
#include <functional>
#include <memory>
#include <span>

#include "sidecar/env.h"
#include "sidecar/shell/config.h"
#include "sidecar/store/store.h"

namespace kvsidecar {

struct StoreCounters;

// A store and what the daemon needs of its kind beside the interface. All empty: no store.
struct OpenedStore {
  std::unique_ptr<Store> store;
  std::function<void(std::span<std::byte>)> register_memory;  // pages will come from there
  const StoreCounters* counters = nullptr;                    // lives with the store
};

// Resolves an automatic capacity into config.limits.
Result<OpenedStore> open_store(Config& config, Clock& clock, FaultPoints& faults,
                               Waker* done_waker);

}  // namespace kvsidecar
