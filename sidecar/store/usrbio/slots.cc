// SPDX-License-Identifier: Apache-2.0
#include "sidecar/store/usrbio/slots.h"

#include <bit>

namespace kvsidecar::usrbio {
namespace {
constexpr uint32_t kWordBits = 64;
}

Slots::Slots(uint32_t count) : slots_(count), free_((count + kWordBits - 1) / kWordBits, 0) {
  for (uint32_t slot = 0; slot < count; ++slot)
    free_[slot / kWordBits] |= uint64_t{1} << (slot % kWordBits);
}

std::optional<Slots::Taken> Slots::take(uint64_t user, uint64_t bytes) {
  for (size_t word = 0; word < free_.size(); ++word) {
    if (free_[word] == 0) continue;
    const auto bit = static_cast<uint32_t>(std::countr_zero(free_[word]));
    free_[word] &= free_[word] - 1;
    const uint32_t slot = static_cast<uint32_t>(word) * kWordBits + bit;
    Slot& taken = slots_[slot];
    if (++taken.generation == 0) taken.generation = 1;
    taken.io = {user, bytes};
    taken.taken = true;
    ++taken_;
    return Taken{slot, uint64_t{taken.generation} << 32 | slot};
  }
  return std::nullopt;
}

std::optional<Slots::Io> Slots::finish(uint64_t token) {
  const uint32_t slot = slot_of(token);
  if (slot >= slots_.size()) return std::nullopt;
  Slot& known = slots_[slot];
  if (!known.taken || known.generation != token >> 32) return std::nullopt;
  known.taken = false;
  free_[slot / kWordBits] |= uint64_t{1} << (slot % kWordBits);
  --taken_;
  return known.io;
}

}  // namespace kvsidecar::usrbio
