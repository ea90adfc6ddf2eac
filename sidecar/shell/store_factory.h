// SPDX-License-Identifier: Apache-2.0
// The store that a Config names. Start-up; blocking.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "sidecar/env.h"
#include "sidecar/shell/config.h"
#include "sidecar/store/store.h"

namespace kvsidecar {

class UsrbioTrial;
struct StoreCounters;
struct UsrbioCounters;

// A store and what the daemon needs of its kind beside the interface. All empty: no store.
struct OpenedStore {
  std::shared_ptr<UsrbioTrial> trial;  // ends after the store
  std::unique_ptr<Store> store;
  // Pages will come from there: the whole of that file, mapped.
  std::function<void(const std::string& path, std::span<std::byte> memory)> register_memory;
  const StoreCounters* counters = nullptr;  // live with the store
  const UsrbioCounters* usrbio = nullptr;   // null: it isn't reached by USRBIO
  // What I/O of a predecessor may still write into the pool after its process is gone: the kernel's
  // own time limit for a command to a disk.
  uint64_t predecessor_io_ns = 30'000'000'000;
};

// Resolves an automatic kind, said in the log, and an automatic capacity into config.limits. By
// name, "usrbio" fails with the reason where it can't be had; "auto" goes on with "file".
Result<OpenedStore> open_store(Config& config, Clock& clock, FaultPoints& faults,
                               Waker* done_waker);

}  // namespace kvsidecar
