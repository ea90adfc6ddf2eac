// SPDX-License-Identifier: Apache-2.0
// Leases, and the groups of ranks that share them. Conductor's thread only.
#pragma once
#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "sidecar/index/index.h"

namespace kvsidecar {

using GroupId = std::array<std::byte, 16>;

// A hold on pages between lookup and load. Each entry is pinned once.
struct Lease {
  uint64_t id = 0;
  uint64_t session = 0;  // who asked, and in whose count its pages are
  bool grouped = false;  // owned by `group`: any member's get may quote it
  GroupId group{};
  uint64_t ticket = 0;  // whose answer it is part of; 0 = none
  std::vector<EntryId> entries;
  uint64_t bytes = 0;
  uint64_t expires_ns = 0;
};

// What a lookup found, ready to be sent to any rank.
struct LookupAnswer {
  uint32_t keys = 0, longest = 0;
  std::vector<uint8_t> restorable;  // bit i: a prefix of i+1 pages
  std::vector<uint8_t> places;      // one Place a key
  uint64_t lease = 0;
  bool lease_capped = false;
};

struct Ticket {
  uint64_t request_hash = 0;
  LookupAnswer answer;
  std::set<uint16_t> asked;  // ranks
  uint64_t expires_ns = 0;
  bool ended = false;  // its lease ended: EXPIRED to all who still ask
};

struct Group {
  GroupId id{};
  uint16_t size = 0;
  std::map<uint16_t, uint64_t> ranks;  // rank -> session
  uint64_t coordinator = 0;            // session, 0 = none
  std::map<uint64_t, Ticket> tickets;
  uint64_t ticket_keys = 0;  // of all their answers: bounds their memory
};

}  // namespace kvsidecar
