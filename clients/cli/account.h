// SPDX-License-Identifier: Apache-2.0
// The daemon's account of itself (stat's JSON) as values, and as text. Pure; any thread.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "ipc/result.h"

namespace kvsidecar {

struct Account {
  uint64_t epoch = 0;
  bool draining = false, scanned = false;
  std::string device, store;
  uint64_t pool_bytes = 0, pool_page_bytes = 0, pool_stranded_bytes = 0, spans = 0, spans_empty = 0;
  uint64_t slots_full = 0, slots_filling = 0, slots_quarantined = 0;
  uint64_t index_pages = 0, index_bytes = 0;
  uint64_t sessions = 0, groups = 0, namespaces = 0, leases = 0, lease_pages = 0, operations = 0;
  uint64_t write_bytes = 0, write_pages = 0, segments = 0, segment_bytes = 0, capacity_bytes = 0;
  std::map<std::string, uint64_t> counters;

  uint64_t count(const std::string& name) const;
};

// Fields that an older daemon doesn't tell are 0; what isn't an account at all is an error.
Result<Account> parse_account(const std::string& json);

std::string status_text(const Account& account, int daemon_pid);
// One screen: the status, and what happened per second between two accounts of one daemon.
std::string top_text(const Account& before, const Account& now, double seconds);
// The rates of top as JSON: {"seconds", "rates": {counter: per second}, "status": {...}}.
std::string top_json(const Account& before, const Account& now, double seconds,
                     const std::string& status_json);
// What a counter has grown by; a daemon that was started again in between counts from zero.
uint64_t grown(const Account& before, const Account& now, const std::string& name);
// Share of looked-up pages that were found between the two, 0..1; 0 when none were asked for.
double hit_share(const Account& before, const Account& now);

}  // namespace kvsidecar
