// SPDX-License-Identifier: Apache-2.0
// Why requests of a replay did not succeed: how often each kind ended with each status. Lies in the
// memory that all engines share, so a cause that every page meets is said once by one of them and
// counted from there on. Counting: any thread of any engine. The rest is pure.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "ipc/status.h"

namespace kvsidecar {

enum class RequestKind : uint8_t { kLookup, kGet, kPut };

struct Cause {
  RequestKind kind;
  Code status;
  uint64_t count;  // lookups, else pages
};

class Causes {
 public:
  // True for the first of its kind and status: the one to say.
  bool add(RequestKind kind, Code status, uint64_t count);
  std::vector<Cause> list() const;  // most frequent first

 private:
  static constexpr size_t kKinds = 3, kStatuses = static_cast<size_t>(Code::kInternal) + 1;
  std::atomic<uint64_t> counts_[kKinds][kStatuses];
};

// A put that the daemon doesn't take in: no room, no permission, no new work. The engine goes on
// without the page, as it would with a cache of its own that is full.
constexpr bool is_refused(Code status) {
  return status == Code::kBusy || status == Code::kDenied || status == Code::kDraining ||
         status == Code::kOverQuota;
}

std::string kind_name(RequestKind kind);  // "lookup", "get", "put"
// "put DENIED": which request and how it ended.
std::string cause_name(const Cause& cause);
// "1,234 pages".
std::string cause_count(const Cause& cause);
// What to do about it; empty where that isn't known.
std::string cause_remedy(const Cause& cause);

}  // namespace kvsidecar
