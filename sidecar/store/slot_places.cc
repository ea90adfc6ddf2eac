// SPDX-License-Identifier: Apache-2.0
#include "sidecar/store/slot_places.h"

#include <algorithm>

#include "sidecar/store/segment_format.h"

namespace kvsidecar {

// The slots of `next` go on where those of `to` end, at the same distance.
bool SlotPlaces::join(Stretch& to, const Stretch& next) {
  if (to.end() != next.first || to.trailer_bytes != next.trailer_bytes) return false;
  const uint32_t last = to.offset_of(to.end() - 1);
  if (next.offset_units <= last) return false;
  const uint32_t stride = next.offset_units - last;
  if (to.count > 1 && to.stride_units != stride) return false;
  if (next.count > 1 && next.stride_units != stride) return false;
  to.stride_units = stride;
  to.count += next.count;
  return true;
}

size_t SlotPlaces::behind(uint32_t slot) const {
  const auto at = std::upper_bound(stretches_.begin(), stretches_.end(), slot,
                                   [](uint32_t s, const Stretch& x) { return s < x.first; });
  return static_cast<size_t>(at - stretches_.begin());
}

void SlotPlaces::set(uint32_t slot, const SlotPlace& place) {
  KV_CHECK(place.offset % kSlotUnit == 0 && place.offset != 0);
  KV_CHECK(place.offset / kSlotUnit <= UINT32_MAX && slot != UINT32_MAX);
  cut_out(slot);
  if (slot < gone_.size()) gone_[slot] = false;
  const Stretch made{.first = slot,
                     .offset_units = static_cast<uint32_t>(place.offset / kSlotUnit),
                     .trailer_bytes = place.trailer_bytes};
  size_t at = behind(slot);
  if (at > 0 && join(stretches_[at - 1], made))
    --at;
  else
    stretches_.insert(stretches_.begin() + static_cast<std::ptrdiff_t>(at), made);
  if (at + 1 < stretches_.size() && join(stretches_[at], stretches_[at + 1]))
    stretches_.erase(stretches_.begin() + static_cast<std::ptrdiff_t>(at) + 1);
}

// So that the slot is in no stretch.
void SlotPlaces::cut_out(uint32_t slot) {
  const size_t at = behind(slot);
  if (at == 0 || slot >= stretches_[at - 1].end()) return;
  const Stretch whole = stretches_[at - 1];
  std::vector<Stretch> left;
  if (slot > whole.first) {
    left.push_back(whole);
    left.back().count = slot - whole.first;
  }
  if (slot + 1 < whole.end()) {
    left.push_back(whole);
    left.back().first = slot + 1;
    left.back().count = whole.end() - slot - 1;
    left.back().offset_units = whole.offset_of(slot + 1);
  }
  const auto place = stretches_.erase(stretches_.begin() + static_cast<std::ptrdiff_t>(at) - 1);
  stretches_.insert(place, left.begin(), left.end());
}

bool SlotPlaces::clear(uint32_t slot) {
  if (!find(slot).has_value()) return false;
  if (gone_.size() <= slot) gone_.resize(size_t{slot} + 1);
  gone_[slot] = true;
  return true;
}

std::optional<SlotPlace> SlotPlaces::find(uint32_t slot) const {
  const size_t at = behind(slot);
  if (at == 0 || slot >= stretches_[at - 1].end() || is_gone(slot)) return std::nullopt;
  const Stretch& stretch = stretches_[at - 1];
  return SlotPlace{stretch.offset_of(slot) * kSlotUnit, stretch.trailer_bytes};
}

void SlotPlaces::clear_all() {
  stretches_ = std::vector<Stretch>();
  gone_ = std::vector<bool>();
}

uint64_t SlotPlaces::memory_bytes() const {
  return stretches_.capacity() * sizeof(Stretch) + gone_.capacity() / 8;
}

}  // namespace kvsidecar
