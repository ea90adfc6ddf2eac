// SPDX-License-Identifier: Apache-2.0
#include "sidecar/index/eviction_ghosts.h"

#include <algorithm>
#include <bit>

namespace kvsidecar {

Ghosts::Ghosts(uint32_t slots_max) {
  static_assert(kSetsMin % kSetsPerBlock == 0 && kSetsMin == (1u << 9));
  for (uint32_t i = 0; i < kSetsMin / kSetsPerBlock; ++i)
    blocks_.push_back(std::make_unique<Set[]>(kSetsPerBlock));
  resize(slots_max);
}

void Ghosts::resize(uint32_t slots_max) {
  const uint32_t sets = slots_max / (kWays / kPerSlot);
  while (sets_ < sets) split();
}

// The next set in turn gives the half of its entries that belong to the new one.
void Ghosts::split() {
  if (sets_ == blocks_.size() * kSetsPerBlock)
    blocks_.push_back(std::make_unique<Set[]>(kSetsPerBlock));
  const uint32_t number = sets_ - level_sets_;
  const auto bit = static_cast<uint32_t>(std::countr_zero(level_sets_)) - 9;  // of the held tag
  Set& old = set_at(number);
  Set& made = set_at(sets_);
  Set kept{};
  size_t kept_entries = 0, moved_entries = 0;
  for (const Entry& entry : old) {
    if (entry.uses == 0 && entry.tag == 0) continue;
    if (((entry.tag >> bit) & 1) != 0)
      made[moved_entries++] = entry;
    else
      kept[kept_entries++] = entry;
  }
  old = kept;
  if (++sets_ == 2 * level_sets_) level_sets_ = sets_;
}

Ghosts::Set& Ghosts::set_of(uint32_t tag) {
  const uint32_t spread = std::rotl(tag, 9);  // first the bits that an entry doesn't hold
  const uint32_t number = spread & (2 * level_sets_ - 1);
  return set_at(number < sets_ ? number : number - level_sets_);
}

Ghosts::Entry* Ghosts::find(uint32_t tag) {
  for (Entry& entry : set_of(tag))
    if (entry.tag == (tag & kTagMask)) return &entry;
  return nullptr;
}

void Ghosts::add(uint32_t tag, uint8_t uses) {
  Set& set = set_of(tag);
  std::copy_backward(set.begin(), set.end() - 1, set.end());
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
