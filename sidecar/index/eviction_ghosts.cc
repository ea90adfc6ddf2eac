// SPDX-License-Identifier: Apache-2.0
#include "sidecar/index/eviction_ghosts.h"

#include <algorithm>

namespace kvsidecar {

void Ghosts::resize(uint32_t slots_max) {
  const uint32_t sets = std::max<uint32_t>(1, slots_max / (kWays / kPerSlot));
  if (sets < sets_ + sets_ / 2 + 1) return;
  sets_ = sets;
  entries_.assign(size_t{sets} * kWays, Entry{});
}

Ghosts::Entry* Ghosts::set_of(uint32_t tag) {
  return &entries_[((uint64_t{tag} * sets_) >> 32) * kWays];
}

Ghosts::Entry* Ghosts::find(uint32_t tag) {
  Entry* set = set_of(tag);
  for (uint32_t i = 0; i < kWays; ++i) {
    if (set[i].tag == (tag & kTagMask)) return &set[i];
  }
  return nullptr;
}

void Ghosts::add(uint32_t tag, uint8_t uses) {
  Entry* set = set_of(tag);
  std::copy_backward(set, set + kWays - 1, set + kWays);
  set[0] = Entry{tag & kTagMask, 0, uses};
}

uint8_t Ghosts::miss(uint32_t tag) {
  Entry* entry = find(tag);
  if (entry == nullptr) return 0;
  if (entry->missed == 0) {
    entry->missed = 1;
    entry->uses = entry->uses == 0xFF ? 0xFF : (entry->uses + 1u) & 0xFF;
  }
  return static_cast<uint8_t>(entry->uses);
}

uint8_t Ghosts::take(uint32_t tag) {
  const uint8_t uses = miss(tag);
  if (Entry* entry = find(tag)) *entry = Entry{};
  return uses;
}

}  // namespace kvsidecar
